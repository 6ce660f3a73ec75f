"""State that newcomers receive ahead: before their round is entered, while the others train on."""
