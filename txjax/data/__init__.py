"""From a source to batches: text by documents -> tokenizer -> chunks, tasks as they are drawn; both are Examples.

dataset.load(config)            a Dataset: the codec and the Examples of each split
pipeline.TrainBatches(...)      endless batches, text shuffled each epoch, resumable
pipeline.evaluation_batches(..) every example once, in order
"""
