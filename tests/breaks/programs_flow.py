from capture.programs import parse

PROGRAMS = parse("")
