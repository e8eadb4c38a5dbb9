from models import export_language_model, tokens

exported_program = export_language_model()
prompt, positions = tokens(100)
one_id, one_position = tokens(1)
