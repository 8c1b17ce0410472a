/* Libraries that AOTInductor has made of a graph, called from C.
 *
 * A library has a C interface, which is stable: a container of models, and a function that runs one on handles of tensors. No
 * Python is left between the inputs of a graph and its outputs, and neither torch._dynamo nor torch._inductor is needed.
 *
 * The content is copied into memory that has no name, and loaded from there: whatever becomes of the file that it was read from,
 * what is loaded stays as it is.
 *
 * Beside running the library, a call does what AOTAutograd's code does around a graph: an output that is an input is that very
 * object, one that is a view of an input is made a view of it, and inputs that the graph writes to have another version. */
#include "torch/library.h"

#include "cpython/aside.h"
#include "torch/layout.h"

#include <dlfcn.h>
#include <structmember.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *Handle; /* a pointer to an at::Tensor, which is one word */

/* What becomes of an output. */
typedef enum {
    OUTPUT_NEW,   /* a tensor of its own */
    OUTPUT_INPUT, /* an input, as it is */
    OUTPUT_VIEW,  /* a view of an input */
    OUTPUT_KINDS,
} OutputKind;

typedef struct {
    OutputKind kind;
    int input; /* which one */
} Output;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *weak; /* weak references to it */
    void *library;  /* from dlopen */
    void *container;
    int32_t (*run)(void *, Handle *, size_t, Handle *, size_t, void *, void *);
    int32_t (*destroy)(void *);
    int32_t (*last_error)(const char **);
    int *inputs; /* owned: which of the arguments it takes, in its order */
    int input_count, argument_count;
    Output *outputs; /* owned */
    int output_count;
    int *written; /* owned: the arguments that it writes to */
    int written_count;
} MgLibrary;

static struct {
    int32_t (*new_handle)(Handle, Handle *);
    int32_t (*free_handle)(Handle);
    int32_t (*get_dim)(Handle, int64_t *);
    int32_t (*get_sizes)(Handle, int64_t **);
    int32_t (*get_strides)(Handle, int64_t **);
    int32_t (*get_offset)(Handle, int64_t *);
    PyObject *(*wrap)(Handle); /* THPVariable_Wrap of a tensor that may be taken over */
    PyObject *increment;       /* strong: torch._C._increment_version */
} torch;

/* ---- loading ---- */

/* Finds what is called of torch. MG_OK or MG_ERR. */
static int
find_torch(void)
{
    if (torch.increment != NULL) {
        return MG_OK;
    }
    const MgSymbol wanted[] = {
        {"aoti_torch_new_tensor_handle", (void **)&torch.new_handle},
        {"aoti_torch_delete_tensor_object", (void **)&torch.free_handle},
        {"aoti_torch_get_dim", (void **)&torch.get_dim},
        {"aoti_torch_get_sizes", (void **)&torch.get_sizes},
        {"aoti_torch_get_strides", (void **)&torch.get_strides},
        {"aoti_torch_get_storage_offset", (void **)&torch.get_offset},
    };
    const char *missing = mg_torch_find(wanted, Py_ARRAY_LENGTH(wanted));
    PyObject *core = missing != NULL ? NULL : mg_aside_import("torch._C");
    PyObject *file = core == NULL ? NULL : PyObject_GetAttrString(core, "__file__");
    const char *path = file == NULL ? NULL : PyUnicode_AsUTF8(file);
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    torch.wrap = library == NULL ? NULL : dlsym(library, "_Z16THPVariable_WrapON2at10TensorBaseE");
    torch.increment = torch.wrap == NULL ? NULL : PyObject_GetAttrString(core, "_increment_version");
    Py_XDECREF(core);
    Py_XDECREF(file);
    if (torch.increment == NULL && !PyErr_Occurred()) {
        PyErr_Format(PyExc_OSError, "libtorch has no %s", missing == NULL ? "THPVariable_Wrap" : missing);
    }
    return torch.increment == NULL ? MG_ERR : MG_OK;
}

/* A path to an open file that was used for no other: dlopen gives back what it has loaded by the same one. */
static void
name_file(char *path, size_t room, int file)
{
    static unsigned int count;
    enum { BITS = 24 };
    size_t length = (size_t)snprintf(path, room, "/proc/self/fd");
    count++;
    for (int i = 0; i < BITS; i++) {
        length += (size_t)snprintf(path + length, room - length, count >> i & 1 ? "/." : "/");
    }
    snprintf(path + length, room - length, "/%d", file);
}

/* Loads a library from a copy of its content. MG_OK or MG_ERR. */
static int
load(MgLibrary *self, const char *content, Py_ssize_t size)
{
    int file = memfd_create("magneto", MFD_CLOEXEC);
    if (file < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return MG_ERR;
    }
    Py_ssize_t done = 0;
    while (done < size) {
        ssize_t count = write(file, content + done, (size_t)(size - done));
        if (count <= 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            close(file);
            return MG_ERR;
        }
        done += count;
    }
    char path[128];
    name_file(path, sizeof(path), file);
    self->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (self->library == NULL) {
        PyErr_Format(PyExc_OSError, "the library of a graph can't be loaded: %s", dlerror());
    }
    close(file);
    return self->library == NULL ? MG_ERR : MG_OK;
}

/* Sets an exception from what the library says of its last error. */
static void
raise_error(const MgLibrary *self)
{
    const char *text = NULL;
    if (self->last_error == NULL || self->last_error(&text) != 0 || text == NULL || *text == 0) {
        text = "it does not say why";
    }
    PyErr_Format(PyExc_RuntimeError, "the library of a compiled graph failed: %s", text);
}

/* Makes the container, which is to have so many inputs and outputs. MG_OK or MG_ERR. */
static int
open_container(MgLibrary *self)
{
    int32_t (*create)(void **, size_t, const char *, const char *), (*count_inputs)(void *, size_t *);
    int32_t (*count_outputs)(void *, size_t *);
    const MgSymbol wanted[] = {
        {"AOTInductorModelContainerCreateWithDevice", (void **)&create},
        {"AOTInductorModelContainerGetNumInputs", (void **)&count_inputs},
        {"AOTInductorModelContainerGetNumOutputs", (void **)&count_outputs},
        {"AOTInductorModelContainerRun", (void **)&self->run},
        {"AOTInductorModelContainerDelete", (void **)&self->destroy},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) {
        *wanted[i].slot = dlsym(self->library, wanted[i].name);
        if (*wanted[i].slot == NULL) {
            PyErr_Format(PyExc_OSError, "the library of a graph has no %s", wanted[i].name);
            return MG_ERR;
        }
    }
    *(void **)&self->last_error = dlsym(self->library, "AOTInductorGetLastError");
    size_t inputs = 0, outputs = 0;
    if (create(&self->container, 1, "cpu", NULL) != 0 || count_inputs(self->container, &inputs) != 0 ||
        count_outputs(self->container, &outputs) != 0) {
        raise_error(self);
        return MG_ERR;
    }
    if (inputs != (size_t)self->input_count || outputs != (size_t)self->output_count) {
        PyErr_Format(PyExc_ValueError, "the library of a graph has %zu inputs and %zu outputs, and not %d and %d",
                     inputs, outputs, self->input_count, self->output_count);
        return MG_ERR;
    }
    return MG_OK;
}

/* Reads a tuple of positions. New; NULL with an exception. */
static int *
read_positions(PyObject *tuple, int *count, int *most)
{
    int *positions = PyMem_Calloc((size_t)PyTuple_GET_SIZE(tuple) + 1, sizeof(int));
    if (positions == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *count = (int)PyTuple_GET_SIZE(tuple);
    for (int i = 0; i < *count; i++) {
        long position = PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
        if (position < 0 || position >= 1 << 24) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "a position is not negative");
            }
            PyMem_Free(positions);
            return NULL;
        }
        positions[i] = (int)position;
        *most = position >= *most ? (int)position + 1 : *most;
    }
    return positions;
}

static int
read_outputs(MgLibrary *self, PyObject *tuple)
{
    self->outputs = PyMem_Calloc((size_t)PyTuple_GET_SIZE(tuple) + 1, sizeof(Output));
    if (self->outputs == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    self->output_count = (int)PyTuple_GET_SIZE(tuple);
    for (int i = 0; i < self->output_count; i++) {
        int kind, input;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, i), "ii", &kind, &input)) {
            return MG_ERR;
        }
        if (kind < 0 || kind >= OUTPUT_KINDS || input < 0 || input >= 1 << 24) {
            PyErr_SetString(PyExc_ValueError, "no output is like this");
            return MG_ERR;
        }
        self->outputs[i] = (Output){(OutputKind)kind, input};
        if (kind != OUTPUT_NEW && input >= self->argument_count) {
            self->argument_count = input + 1;
        }
    }
    return MG_OK;
}

/* ---- running ---- */

static inline Handle
handle_of(PyObject *tensor)
{
    return (char *)tensor + mg_tensor_layout.impl;
}

static void
free_handles(Handle *handles, int count)
{
    for (int i = 0; i < count; i++) {
        if (handles[i] != NULL) {
            torch.free_handle(handles[i]);
        }
    }
}

/* A tuple of ints. New. */
static PyObject *
ints(const int64_t *values, int64_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int64_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, value);
    }
    return tuple;
}

/* A view of an input with the sizes, the strides and the place of an output. New. */
static PyObject *
view_of(PyObject *input, Handle output)
{
    int64_t dim = 0, *sizes = NULL, *strides = NULL, offset = 0;
    if (torch.get_dim(output, &dim) != 0 || torch.get_sizes(output, &sizes) != 0 ||
        torch.get_strides(output, &strides) != 0 || torch.get_offset(output, &offset) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch does not tell the sizes of an output");
        return NULL;
    }
    PyObject *shape = ints(sizes, dim), *steps = shape == NULL ? NULL : ints(strides, dim);
    PyObject *result =
        steps == NULL ? NULL : PyObject_CallMethod(input, "as_strided", "OOL", shape, steps, (long long)offset);
    Py_XDECREF(shape);
    Py_XDECREF(steps);
    return result;
}

/* The outputs as a tuple. Frees the handles. New. */
static PyObject *
give_outputs(const MgLibrary *self, PyObject *const *args, Handle *handles)
{
    PyObject *result = PyTuple_New(self->output_count);
    for (int i = 0; result != NULL && i < self->output_count; i++) {
        const Output *output = &self->outputs[i];
        PyObject *value = output->kind == OUTPUT_INPUT  ? Py_NewRef(args[output->input])
                          : output->kind == OUTPUT_VIEW ? view_of(args[output->input], handles[i])
                                                        : torch.wrap(handles[i]);
        if (value == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, value);
    }
    free_handles(handles, self->output_count);
    return result;
}

/* Gives the inputs that were written to another version. MG_OK or MG_ERR. */
static int
note_writes(const MgLibrary *self, PyObject *const *args)
{
    PyObject *list = self->written_count == 0 ? NULL : PyTuple_New(self->written_count);
    if (list == NULL) {
        return self->written_count == 0 ? MG_OK : MG_ERR;
    }
    for (int i = 0; i < self->written_count; i++) {
        PyTuple_SET_ITEM(list, i, Py_NewRef(args[self->written[i]]));
    }
    PyObject *done = PyObject_CallOneArg(torch.increment, list);
    Py_XDECREF(done);
    Py_DECREF(list);
    return done == NULL ? MG_ERR : MG_OK;
}

static PyObject *
library_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    MgLibrary *self = (MgLibrary *)callable;
    if (PyVectorcall_NARGS(nargsf) < self->argument_count || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0)) {
        PyErr_Format(PyExc_TypeError, "the library of a graph takes %d inputs", self->argument_count);
        return NULL;
    }
    enum { SMALL = 64 };
    Handle small[SMALL] = {NULL};
    int count = self->input_count + self->output_count;
    Handle *handles = count <= SMALL ? small : PyMem_Calloc((size_t)count, sizeof(Handle));
    if (handles == NULL) {
        return PyErr_NoMemory();
    }
    Handle *outputs = handles + self->input_count;
    int good = 1;
    for (int i = 0; good && i < self->input_count; i++) {
        PyObject *input = args[self->inputs[i]];
        good = mg_torch_is_tensor(input) && torch.new_handle(handle_of(input), &handles[i]) == 0;
    }
    PyObject *result = NULL;
    if (!good) {
        free_handles(handles, self->input_count);
        PyErr_SetString(PyExc_TypeError, "the library of a graph takes tensors");
    }
    else {
        int32_t error;
        Py_INCREF(self); /* another thread may drop it meanwhile */
        Py_BEGIN_ALLOW_THREADS;
        error = self->run(self->container, handles, (size_t)self->input_count, outputs, (size_t)self->output_count,
                          NULL, NULL); /* takes the handles of the inputs */
        Py_END_ALLOW_THREADS;
        if (error != 0) {
            free_handles(outputs, self->output_count);
            raise_error(self);
        }
        else {
            result = give_outputs(self, args, outputs);
        }
        if (result != NULL && note_writes(self, args) < 0) {
            Py_CLEAR(result);
        }
        Py_DECREF(self);
    }
    if (handles != small) {
        PyMem_Free(handles);
    }
    return result;
}

/* ---- the type ---- */

static void
library_dealloc(MgLibrary *self)
{
    if (self->weak != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    if (self->container != NULL) {
        self->destroy(self->container);
    }
    if (self->library != NULL) {
        dlclose(self->library);
    }
    PyMem_Free(self->inputs);
    PyMem_Free(self->outputs);
    PyMem_Free(self->written);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
library_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Py_buffer content;
    PyObject *inputs, *outputs, *written;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Library() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "y*O!O!O!:Library", &content, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs,
                          &PyTuple_Type, &written)) {
        return NULL;
    }
    MgLibrary *self = (MgLibrary *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = library_call;
        self->inputs = read_positions(inputs, &self->input_count, &self->argument_count);
        self->written =
            self->inputs == NULL ? NULL : read_positions(written, &self->written_count, &self->argument_count);
        if (self->written == NULL || read_outputs(self, outputs) < 0 || find_torch() < 0 ||
            load(self, content.buf, content.len) < 0 || open_container(self) < 0) {
            Py_CLEAR(self);
        }
    }
    PyBuffer_Release(&content);
    return (PyObject *)self;
}

PyTypeObject MgLibrary_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Library",
    .tp_basicsize = sizeof(MgLibrary),
    .tp_new = library_new,
    .tp_dealloc = (destructor)library_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(MgLibrary, vectorcall),
    .tp_weaklistoffset = offsetof(MgLibrary, weak),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc =
        "Library(content, inputs, outputs, written, /)\n--\n\n"
        "What AOTInductor has made of a graph. `inputs` are the arguments that it takes; an output is (kind, input): "
        "0 a tensor of its own, 1 that input, 2 a view of it; `written` are the arguments that it writes to.",
};

int
mg_library_types_ready(void)
{
    return PyType_Ready(&MgLibrary_Type);
}
