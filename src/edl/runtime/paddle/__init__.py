"""Runs PaddlePaddle's own parameter servers and trainers in the pods of a TrainingJob. Entry point: `edl.paddle`."""
