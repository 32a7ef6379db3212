"""From text to batches: source -> documents -> tokenizer -> chunks -> batches.

dataset.load(config)            a Dataset: the codec and the sequences of both splits
pipeline.TrainBatches(...)      endless batches, shuffled each epoch, resumable
pipeline.evaluation_batches(..) every sequence once, in order
"""
