"""Where in the source an instruction comes from."""

from chainrule import source as places


def test_places_in_long_functions_are_those_of_the_instructions():
    codes = [
        compile("\n".join(f"{name}{i} = {i} + x" for i in range(300)), name, "exec")
        for name in ("first", "second")
    ]
    for code in codes + codes[:1]:
        instructions = [*code.co_positions()]
        assert len(instructions) > 2 * places.LONG
        for index in (0, 1, places.LONG - 1, places.LONG, places.LONG + 1, len(instructions) - 1):
            found = places.source_location(code, 2 * index)
            line, end_line, column, end_column = instructions[index]
            assert found[2:] == (line, end_line, column, end_column)
            assert found.filename == code.co_filename
        assert places.source_location(code, 2 * len(instructions)).line == code.co_firstlineno
