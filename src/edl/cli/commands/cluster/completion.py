"""Print a script that completes commands and options: `source <(edl completion bash)`, or zsh, or fish."""

import argparse

from edl.cli.registry import all_parsers

SUMMARY = "completion of commands and options, for bash, zsh or fish"
ORDER = 280

SHELLS = ("bash", "zsh", "fish")

BASH = """_edl() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case "$command" in
{cases}
    esac
}}
complete -o default -F _edl edl
"""
CASE = """        {name}) [[ "$word" == -* ]] && COMPREPLY=($(compgen -W "{options}" -- "$word")) ;;"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def run(options: argparse.Namespace) -> int:
    known = {name: _options(parser) for name, parser in all_parsers()}
    print(_fish(known) if options.shell == "fish" else _bash(known, zsh=options.shell == "zsh"), end="")
    return 0


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [text for action in parser._actions for text in action.option_strings if text.startswith("--")]


def _bash(known: dict[str, list[str]], *, zsh: bool) -> str:
    """zsh understands bash's completions once it is asked to."""
    cases = "\n".join(CASE.format(name=name, options=" ".join(options)) for name, options in known.items())
    script = BASH.format(commands=" ".join(known), cases=cases)
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if zsh else script


def _fish(known: dict[str, list[str]]) -> str:
    lines = [f"complete -c edl -n __fish_use_subcommand -a {name}" for name in known]
    for name, options in known.items():
        seen = f"'__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c edl -n {seen} -l {option.removeprefix('--')}" for option in options]
    return "\n".join(lines) + "\n"
