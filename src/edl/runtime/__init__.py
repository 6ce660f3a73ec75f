"""Code that runs inside the pods of a job. It is installed into the images of users, so it needs little.

`tasks` is the master, `parameters` the parameter servers, `trainer_api` the library behind `edl.trainer`,
`easydl_trainer` the trainer of an EasyDL job, which plans resources; `torch` and `paddle` adapt other frameworks;
`logs` sends what pods write to the Brain.
The modules here and `tasks` need the standard library and msgspec (`sharding` NumPy); `parameters`, `trainer_api` and
`easydl_trainer` NumPy too; `logs` and `torch` the standard library and, in what torchrun loads, torch; `paddle` Paddle.
Nothing of the operator is imported: the messages between the two are in `edl.protocol`.
"""
