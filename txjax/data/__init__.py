"""From a source to batches: text by documents -> tokenizer -> chunks -> objective, labelled texts and pairs a row each,
tasks as they are drawn; all of them are Examples.

dataset.load(config)            a Dataset: the codec and the Examples of each split
pipeline.TrainBatches(...)      endless batches, text shuffled each epoch, resumable
pipeline.evaluation_batches(..) every example once, in order
"""
