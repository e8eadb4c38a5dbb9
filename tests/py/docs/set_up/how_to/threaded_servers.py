from models import compile_language_model

program = compile_language_model()
