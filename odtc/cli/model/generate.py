"""`odtc generate`: what a trained language model says after a text."""

import argparse
from pathlib import Path

from odtc.cli.console import emit, emit_json, say
from odtc.cli.options import add_json_option, at_least
from odtc.core.errors import DataError, ExitCode


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "generate",
        help="see what a language model says",
        description="Runs a language model, such as one of odtc train --export, on this machine, "
        "and prints what it says after a text: the likeliest token, again and again. It is for a "
        "look at what was learned, and as slow as a model without a cache is.",
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="the ONNX file")
    add("--tokenizer", type=Path, required=True, metavar="JSON", help="tokenizer.json of the model")
    add("--prompt", required=True, nargs="+", metavar="TEXT", help="what it goes on from")
    add("--tokens", type=at_least(1), default=32, metavar="N", help="at most (default: 32)")
    add("--end-token", metavar="TOKEN", help="the token that ends a text, such as '</s>'")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints a text for each prompt."""
    from odtc.cli.model.language_model import load_language_model
    from odtc.runtime_rpc.data.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(args.tokenizer, args.end_token)
    model = load_language_model(args.model)
    for prompt in args.prompt:
        ids = tokenizer.encode(prompt, begins=True)
        if not ids:
            raise DataError(
                "the prompt has no tokens", where="--prompt", hint="give a text to go on from"
            )
        if model.length and len(ids) + args.tokens - 1 > model.length:
            say(
                f"note: the model sees {model.length} tokens; once there are more, the last of them"
            )
        said = list(model.continued(ids, args.tokens, tokenizer.end))
        text = tokenizer.decode([*ids, *said])
        if args.json:
            emit_json({"prompt": prompt, "text": text, "tokens": said})
        else:
            emit(text)
    return ExitCode.OK
