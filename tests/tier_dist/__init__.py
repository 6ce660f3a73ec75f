"""The built distribution as a stranger installs it: a wheel in an empty virtualenv, no file of the repository."""
