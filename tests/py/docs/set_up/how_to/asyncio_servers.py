from models import compile_language_model, tokens

program = compile_language_model()
prompt, positions = tokens(100)
one_id, one_position = tokens(1)
