from models import compile_language_model, tokens

program = compile_language_model(longest=128)
one_id, one_position = tokens(1)
