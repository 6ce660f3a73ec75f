"""PaddlePaddle's own parameter servers and trainers in the pods of a TrainingJob. Public face: `edl.paddle`."""
