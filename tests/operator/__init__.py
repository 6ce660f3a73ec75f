# noqa: A005 - named after the package it tests; nothing imports it by its bare name
