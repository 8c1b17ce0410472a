"""Small programs that use torch.compile as its users and their libraries do; nothing here knows of magneto.

Each file has `main(backend, folder)`: it runs a program whose compiled parts go to the backend of that name, may write
to the folder, and returns what there is to compare: tensors, numbers, texts in lists and dicts. What it returns under
"for the backend" is compared with torch.compile only. Weights are random, and runs take seconds. `BACKEND` is the name
to use if a library takes only those that it knows, and `PROCESSES` how many processes run it.
"""
