"""Java's .properties format; the expected values are those of java.util.Properties."""

from __future__ import annotations

import pytest

from tidelog.model.properties import MalformedProperties, read_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("key=value", {"key": "value"}),
        ("key = value ", {"key": "value "}),
        ("  key:value", {"key": "value"}),
        ("key value with blanks", {"key": "value with blanks"}),
        ("key \t\f=\t value", {"key": "value"}),
        ("key==value", {"key": "=value"}),
        ("key : = value", {"key": "= value"}),
        ("key", {"key": ""}),
        ("key=", {"key": ""}),
        ("=value", {"": "value"}),
        ("# comment\n! comment\n\n \t\n  # comment\nkey=value#not a comment", {"key": "value#not a comment"}),
        ("key=a,\\\n    b,\\\n\tc", {"key": "a,b,c"}),
        ("key=a\\\n# still the value", {"key": "a# still the value"}),
        ("key=a\\\\\nother=b", {"key": "a\\", "other": "b"}),
        ("key=a\\\\\\\nb", {"key": "a\\b"}),
        ("a=1\rb=2\r\nc=3\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("key=C:\\\\data\\tab\\nline\\r\\f", {"key": "C:\\data\tab\nline\r\f"}),
        ("key=\\q\\u0041\\u00e9", {"key": "qAé"}),
        ("key=\\uD83D\\uDE00", {"key": "😀"}),
        ("key=é\u2028\x0b", {"key": "é\u2028\x0b"}),
        ("key=1\nkey=2", {"key": "2"}),
        ("key=value\\", {"key": "value"}),
        ("\\\n# comment\nkey=value", {"key": "value"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert read_properties(text) == properties


@pytest.mark.parametrize("text", ["key=\\u12", "key=\\u12g4", "\\u=1", "key=\\u+123"])
def test_a_broken_unicode_escape_is_an_error(text: str) -> None:
    with pytest.raises(MalformedProperties, match="four hexadecimal digits"):
        read_properties(text)
