"""Ollama's folder of models, said as a manifest: its GGUF files served by llama.cpp, or its own server for each."""
