"""Messages: one line of bounded length, whatever they quote."""

from hierbench.errors import LONGEST, DataError, explained, one_line


def test_a_message_is_cut_where_it_quotes_a_file_without_end():
    assert str(DataError("short")) == "short"
    text = str(DataError("x" * 10_000))
    assert (len(text), text[-2:]) == (LONGEST, "x…")


def test_foreign_errors_are_told_with_their_type_and_ours_without():
    assert explained(DataError("a\n  b")) == "a b"
    assert explained(KeyError("a")) == "KeyError: 'a'"
    assert one_line(ValueError()) == "ValueError"
    assert one_line("\x1b[31mred\x1b[0m\nline") == "red line"
    assert one_line("abcdef", 3) == "ab…"
