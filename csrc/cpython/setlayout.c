/* The tables of sets. See setlayout.h. */
#include "cpython/setlayout.h"

/* What lies in a slot. */
enum { EMPTY, DUMMY, ITEM };

typedef struct {
    int64_t kind;
    int64_t hash;
} Place;

typedef struct {
    int64_t mask, fill, used, finger;
    Place places[];
} Places;

static int
kind_of(const setentry *entry)
{
    return entry->key == NULL ? EMPTY : entry->key == _PySet_Dummy ? DUMMY : ITEM;
}

/* Returns a set a table of empty slots. MG_OK, or MG_ERR, and the set is as it was. */
static int
make_room(PySetObject *set, Py_ssize_t mask)
{
    setentry *table = mask < PySet_MINSIZE ? NULL : PyMem_Calloc((size_t)mask + 1, sizeof(setentry));
    if (table == NULL && mask >= PySet_MINSIZE) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    if (set->table != set->smalltable || set->fill != 0) {
        PySet_Clear((PyObject *)set); /* never fails */
    }
    if (table != NULL) {
        set->table = table;
        set->mask = mask;
    }
    return MG_OK;
}

int
mg_set_copy_into(PyObject *target, PyObject *set)
{
    PySetObject *to = (PySetObject *)target, *from = (PySetObject *)set;
    if (make_room(to, from->mask) < 0) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i <= from->mask; i++) {
        to->table[i] = from->table[i];
        if (kind_of(&from->table[i]) == ITEM) {
            Py_INCREF(from->table[i].key);
        }
    }
    to->fill = from->fill;
    to->used = from->used;
    to->finger = from->finger;
    return MG_OK;
}

PyObject *
mg_set_copy(PyTypeObject *type, PyObject *set)
{
    PyObject *copy = type == &PyFrozenSet_Type ? PyFrozenSet_New(NULL) : PySet_New(NULL);
    if (copy != NULL && mg_set_copy_into(copy, set) < 0) {
        Py_CLEAR(copy);
    }
    return copy;
}

PyObject *
mg_set_items(PyObject *set)
{
    PyObject *items = PyList_New(0), *item;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    while (items != NULL && _PySet_NextEntry(set, &position, &item, &hash)) {
        if (PyList_Append(items, item) < 0) {
            Py_CLEAR(items);
        }
    }
    return items;
}

/* 1 for an item whose hash and comparison are C code. */
static int
is_plain(PyObject *item)
{
    return PyLong_CheckExact(item) || PyUnicode_CheckExact(item) || PyBytes_CheckExact(item) ||
           PyFloat_CheckExact(item) || PyComplex_CheckExact(item);
}

PyObject *
mg_set_places(PyObject *object)
{
    PySetObject *set = (PySetObject *)object;
    Py_ssize_t size = (Py_ssize_t)sizeof(Places) + (set->mask + 1) * (Py_ssize_t)sizeof(Place);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, size);
    if (bytes == NULL) {
        return NULL;
    }
    Places *places = (Places *)(void *)PyBytes_AS_STRING(bytes);
    *places = (Places){set->mask, set->fill, set->used, set->finger};
    for (Py_ssize_t i = 0; i <= set->mask; i++) {
        int kind = kind_of(&set->table[i]);
        places->places[i] = (Place){kind, kind == ITEM ? set->table[i].hash : 0};
    }
    return bytes;
}

int
mg_set_has_places(PyObject *object, PyObject *bytes)
{
    PySetObject *set = (PySetObject *)object;
    const Places *places = (const Places *)(const void *)PyBytes_AS_STRING(bytes);
    if (set->mask != places->mask || set->fill != places->fill || set->used != places->used ||
        set->finger != places->finger) {
        return 0;
    }
    for (Py_ssize_t i = 0; i <= set->mask; i++) {
        const Place *place = &places->places[i];
        if (kind_of(&set->table[i]) != place->kind || (place->kind == ITEM && set->table[i].hash != place->hash)) {
            return 0;
        }
    }
    return 1;
}

int
mg_set_fill(PyObject *object, PyObject *const *items, PyObject *bytes)
{
    PySetObject *set = (PySetObject *)object;
    const Places *places = (const Places *)(const void *)PyBytes_AS_STRING(bytes);
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0; i <= places->mask; i++) {
        if (places->places[i].kind == ITEM) {
            PyObject *item = items[next++]; /* if it is no plain value, its hash is known to be the same */
            Py_hash_t hash = is_plain(item) ? PyObject_Hash(item) : places->places[i].hash;
            if (hash != places->places[i].hash) {
                return hash == -1 ? MG_ERR : 0;
            }
        }
    }
    if (make_room(set, places->mask) < 0) {
        return MG_ERR;
    }
    next = 0;
    for (Py_ssize_t i = 0; i <= places->mask; i++) {
        const Place *place = &places->places[i];
        if (place->kind == ITEM) {
            set->table[i] = (setentry){Py_NewRef(items[next++]), place->hash};
        }
        else if (place->kind == DUMMY) {
            set->table[i] = (setentry){_PySet_Dummy, -1};
        }
    }
    set->fill = places->fill;
    set->used = places->used;
    set->finger = places->finger;
    return 1;
}

/* 1 if two items that are found by each other can't be told apart either. */
static int
is_same_item(PyObject *a, PyObject *b)
{
    return a == b || (Py_IS_TYPE(a, Py_TYPE(b)) &&
                      (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a) ||
                       (PyFloat_CheckExact(a) && PyFloat_AS_DOUBLE(a) != 0))); /* 0.0 and -0.0 are equal */
}

/* The set gets the table of `content`; items that lie in the same place in both stay themselves. */
static int
take_table(PyObject *object, PyObject *content)
{
    PySetObject *set = (PySetObject *)object, *from = (PySetObject *)content;
    PyObject *old = mg_set_copy(&PySet_Type, object); /* what goes must not go in between */
    if (old == NULL || mg_set_copy_into(object, content) < 0) {
        Py_XDECREF(old);
        return MG_ERR;
    }
    const setentry *table = ((PySetObject *)old)->table;
    for (Py_ssize_t i = 0; ((PySetObject *)old)->mask == from->mask && i <= from->mask; i++) {
        if (kind_of(&set->table[i]) == ITEM && kind_of(&table[i]) == ITEM && set->table[i].hash == table[i].hash &&
            is_same_item(set->table[i].key, table[i].key) &&
            PyObject_RichCompareBool(set->table[i].key, table[i].key, Py_EQ) == 1) {
            Py_SETREF(set->table[i].key, Py_NewRef(table[i].key)); /* the content still holds the other */
        }
    }
    Py_DECREF(old);
    return MG_OK;
}

/* Drops from `set` what `wanted` has not, and from `wanted` what the set has. MG_OK or MG_ERR. */
static int
drop_others(PyObject *set, PyObject *wanted)
{
    PyObject *items = mg_set_items(set), *item; /* they stay alive: nothing runs while one is dropped */
    int status = items == NULL ? MG_ERR : MG_OK;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    while (status == MG_OK && _PySet_NextEntry(set, &position, &item, &hash)) {
        Py_INCREF(item);
        PyObject *found = _PyDict_GetItem_KnownHash(wanted, item, hash);
        if (found != NULL && is_same_item(found, item)) {
            status = _PyDict_DelItem_KnownHash(wanted, item, hash);
        }
        else {
            status = PyErr_Occurred() ? MG_ERR : MG_OK;
            PySetObject *table = (PySetObject *)set;
            if (status == MG_OK && position - 1 <= table->mask && table->table[position - 1].key == item) {
                table->table[position - 1] = (setentry){_PySet_Dummy, -1};
                table->used--;
                Py_DECREF(item); /* of the table */
            }
        }
        Py_DECREF(item);
    }
    Py_XDECREF(items);
    return status;
}

int
mg_set_become(PyObject *set, PyObject *content, PyObject *before)
{
    if (before != NULL && mg_set_has_places(set, before)) {
        return take_table(set, content);
    }
    Py_ssize_t position = 0;
    PyObject *item, *value;
    Py_hash_t hash;
    if (PySet_GET_SIZE(content) == 0) {
        return PySet_Clear(set);
    }
    PyObject *wanted = PyDict_New();
    int status = wanted == NULL ? MG_ERR : MG_OK;
    while (status == MG_OK && _PySet_NextEntry(content, &position, &item, &hash)) {
        status = _PyDict_SetItem_KnownHash(wanted, item, item, hash);
    }
    if (status == MG_OK) {
        status = drop_others(set, wanted);
    }
    position = 0;
    int python = 0;
    while (!python && status == MG_OK && PyDict_Next(wanted, &position, &item, &value)) {
        python = !is_plain(item);
    }
    if (python) { /* takes the hashes that the dict has */
        status = _PySet_Update(set, wanted);
    }
    position = 0;
    while (!python && status == MG_OK && PyDict_Next(wanted, &position, &item, &value)) {
        status = PySet_Add(set, item);
    }
    Py_XDECREF(wanted);
    return status;
}
