/* What Python is asked about sizes and numbers: see advice.h. */
#include "capture/advice.h"

#include "cpython/aside.h"

PyObject *mg_advice_asked, *mg_advice_told;

/* What a path starts from: an object, or the name of an argument. Borrowed. */
static PyObject *
root_of(const MgSource *source)
{
    while (source->base != NULL) {
        source = source->base;
    }
    return source->key == NULL ? Py_None : source->key;
}

/* A value as Python has it; None if it varies. New. */
static PyObject *
value_of(int64_t bits, int dim, int varies)
{
    if (varies) {
        return Py_NewRef(Py_None);
    }
    if (dim != -2) {
        return PyLong_FromLongLong(bits);
    }
    double number;
    memcpy(&number, &bits, sizeof(number));
    return PyFloat_FromDouble(number);
}

/* Values as a tuple, with None for those that vary. New. */
static PyObject *
tuple_of(const int64_t *values, int dim, unsigned varying)
{
    int count = dim < 0 ? 1 : dim;
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple != NULL && i < count; i++) {
        PyObject *item = value_of(values[i], dim, (varying >> i) & 1);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

/* Reads such a tuple. 1, or 0 if it is none. */
static int
read_tuple(PyObject *tuple, int dim, int64_t *values, unsigned *varying)
{
    int count = dim < 0 ? 1 : dim;
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) {
        return 0;
    }
    *varying = 0;
    for (int i = 0; i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        int overflow = 0;
        if (item == Py_None) {
            *varying |= 1u << i;
        }
        else if (dim == -2 && PyFloat_CheckExact(item)) {
            memcpy(&values[i], &PyFloat_AS_DOUBLE(item), sizeof(values[i]));
        }
        else if (dim != -2 && PyLong_CheckExact(item)) {
            values[i] = PyLong_AsLongLongAndOverflow(item, &overflow);
        }
        else {
            return 0;
        }
        if (overflow != 0) {
            return 0;
        }
    }
    return 1;
}

/* Reads an answer: a tuple of bits and of what was seen before. 1, or MG_ERR. */
static int
read_answer(PyObject *answer, int dim, MgAdvice *advice)
{
    PyObject *sizes, *strides;
    if (!PyArg_ParseTuple(answer, "IIIOO", &advice->dynamic, &advice->unbacked, &advice->fixed, &sizes, &strides)) {
        return MG_ERR;
    }
    advice->is_known = read_tuple(sizes, dim, advice->sizes, &advice->varying_sizes) &&
                       (dim < 0 || read_tuple(strides, dim, advice->strides, &advice->varying_strides));
    return 1;
}

int
mg_advice_ask(MgCapture *capture, const MgSource *source, int dim, int is_static, const int64_t *sizes,
              const int64_t *strides, MgAdvice *advice)
{
    *advice = (MgAdvice){0};
    if (mg_advice_asked == NULL || dim > MG_ADVICE_DIMS) {
        return 0;
    }
    PyObject *text = mg_source_text(source), *values = text == NULL ? NULL : tuple_of(sizes, dim, 0);
    PyObject *steps = values == NULL ? NULL : tuple_of(strides, dim, 0);
    PyObject *rank = steps == NULL ? NULL : PyLong_FromLong(dim);
    PyObject *args[] = {text, root_of(source), rank, is_static ? Py_True : Py_False, values, steps};
    PyObject *asked = Py_NewRef(mg_advice_asked);
    PyObject *answer = rank == NULL ? NULL : mg_aside_ask(asked, args, Py_ARRAY_LENGTH(args));
    Py_DECREF(asked);
    Py_XDECREF(text);
    Py_XDECREF(values);
    Py_XDECREF(steps);
    Py_XDECREF(rank);
    int status = answer == NULL ? MG_ERR : 0;
    if (answer != NULL && PyExceptionInstance_Check(answer)) { /* the caller gets it */
        Py_XSETREF(capture->interrupt, Py_NewRef(answer));
        status = mg_capture_abort(capture, MG_REASON_EXCEPTION, NULL);
    }
    else if (answer != NULL && answer != Py_None) {
        status = read_answer(answer, dim, advice);
    }
    Py_XDECREF(answer);
    return status;
}

int
mg_advice_tell(const MgSource *source, int dim, const MgAdvice *advice)
{
    if (mg_advice_told == NULL) {
        return MG_OK;
    }
    PyObject *text = mg_source_text(source), *rank = text == NULL ? NULL : PyLong_FromLong(dim);
    PyObject *sizes = rank == NULL ? NULL : tuple_of(advice->sizes, dim, advice->varying_sizes);
    PyObject *strides = sizes == NULL ? NULL : tuple_of(advice->strides, dim, advice->varying_strides);
    PyObject *args[] = {text, root_of(source), rank, sizes, strides};
    PyObject *told = Py_NewRef(mg_advice_told);
    PyObject *done = strides == NULL ? NULL : mg_aside_ask(told, args, Py_ARRAY_LENGTH(args));
    Py_DECREF(told);
    Py_XDECREF(text);
    Py_XDECREF(rank);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    Py_XDECREF(done);
    return done == NULL ? MG_ERR : MG_OK;
}
