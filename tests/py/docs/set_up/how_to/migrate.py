from models import LanguageModel as Model
from models import export_language_model, tokens
from programs import device as device_of_host

device = device_of_host()
exported_program = export_language_model()
prompt, positions = tokens(8)
one_id, one_position = tokens(1)
