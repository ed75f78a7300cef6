"""What is behind the engine `llama.cpp`: flags, files, sizes, states, notes. The engine itself is `llama_cpp.py`."""
