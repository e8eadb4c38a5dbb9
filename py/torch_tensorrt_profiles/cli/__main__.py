from torch_tensorrt_profiles.cli import main

main()
