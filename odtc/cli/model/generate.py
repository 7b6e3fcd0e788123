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
        help="generate text with a language model",
        description="Run a language model, such as one from `odtc train --export`, on this "
        "machine, and print how it continues a text, always with the likeliest token. This is "
        "for a quick look at what was learned, and slow, as the model has no cache of keys and "
        "values.",
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="ONNX file of the model")
    add("--tokenizer", type=Path, required=True, metavar="JSON", help="tokenizer.json of the model")
    add("--prompt", required=True, nargs="+", metavar="TEXT", help="text to continue")
    add(
        "--tokens",
        type=at_least(1),
        default=32,
        metavar="N",
        help="maximum number of tokens to generate (default: 32)",
    )
    add("--end-token", metavar="TOKEN", help="token that ends a text, such as '</s>'")
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
