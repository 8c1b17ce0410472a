"""Numbers that vary, given to C code of the library: it must see plain ints and floats. See texts.py for the form."""

from __future__ import annotations

from .texts import parse

_EXPRESSIONS = {
    "numpy scalars": "(np.int32(3) + k, k * np.float32(2.5), np.int64(7) // k, np.float64(1.5) < k, k == np.int32(4))",
    "numpy functions": "(np.array([k, 1]), np.arange(k), np.zeros((k, 2)).shape, np.float32(k), np.full(2, k), np.sqrt(k))",
    "numpy arrays": "(np.ones(3) * k, (k + np.arange(3)).dtype, np.arange(20)[k], np.arange(20)[:k])",
    "numpy to torch": "torch.from_numpy(np.arange(k) * 2.0)",
    "complex": "(k + 1j, 2j * k, complex(k, 1), complex(1, k), k == 3 + 0j)",
    "fractions": "(fractions.Fraction(k, 6), k * fractions.Fraction(1, 3), fractions.Fraction(1, 2) < k)",
    "decimals": "(decimal.Decimal(k), decimal.Decimal('1.5') * k, k + decimal.Decimal(2))",
    "times": "(datetime.timedelta(days=k), datetime.timedelta(hours=1) * k, datetime.date(2020, 1, k))",
    "json": "(json.dumps({'k': k, 'l': [k]}), json.dumps(k))",
    "pickle": "(pickle.loads(pickle.dumps([k, {'a': k}])), copy.deepcopy([k, (k,)]), copy.copy([k]))",
    "struct and bytes": "(struct.pack('<i', k), bytes(k), bytes([k, 2]), bytearray(k), k.to_bytes(2, 'big'))",
    "chr, hex, bin, oct": "(chr(k + 60), hex(k), bin(k), oct(k), ascii(k), ord('a') + k)",
    "str methods": "('a'.zfill(k), 'ab'.center(k), 'a,b,c'.split(',', k), 'aaaa'.replace('a', 'b', k), 'x' * k)",
    "str formatting": "('%5d' % k, '%*d' % (k, 3), '{:>{w}}'.format('a', w=k), f'{k:03d}{k!r}', f'{k / 2:.2f}')",
    "list methods": "((lambda l: (l.insert(k, 9), l.pop(k - 1), l.index(9), l.count(k), l))(list(range(9))))",
    "tuple and range": "((1, 2, 3, 4, 5, 6, 7)[k], range(20)[k], range(k, 20, 2), len(range(k)), k in range(5), range(k)[-1])",
    "itertools": "(list(itertools.islice(range(20), k)), list(itertools.repeat(1, k)), list(itertools.islice(itertools.count(k), 2)), list(itertools.combinations(range(4), k - 1)))",
    "deque": "(collections.deque(range(9), maxlen=k), (lambda d: (d.rotate(k), d))(collections.deque(range(9)))[1])",
    "counter": "(collections.Counter([k, k, 3]), collections.Counter(a=k) + collections.Counter(a=1))",
    "heapq and bisect": "((lambda h: (heapq.heappush(h, k), h))([1, 4, 9])[1], bisect.bisect([1, 4, 9], k), heapq.nlargest(2, [k, 1, 7]))",
    "array": "(array.array('i', [k, 2]), array.array('d', [k / 2]))",
    "enum lookup": "(Color(k - 2).name, Flag(k).value)",
    "int enums": "(Level.A + k, k * Level.B, k == Level.C, Level.D < k, Level.C is k, k in (Level.C, 9), Level(k - 2))",
    "subclasses of int": "(Mine(3) + k, k + Mine(3), k == Mine(4), type(k + Mine(2)).__name__, Half(0.5) * k, k < Half(3.5))",
    "numbers classes": "(isinstance(k, numbers.Integral), isinstance(k, numbers.Number), isinstance(k, typing.SupportsInt), issubclass(type(k), int), callable(k))",
    "statistics": "(statistics.mean([k, 2]), statistics.median([k, 2, 9]))",
    "random": "(random.Random(k).random(), random.Random(0).randint(0, k))",
    "seeds": "(torch.Generator().manual_seed(k).initial_seed(), torch.manual_seed(k).initial_seed())",
    "map and filter": "(list(map(str, [k, 2])), list(filter(None, [k, 0])), list(map(lambda a, b: a * b, [k, 2], [3, k])), list(zip([k], [k + 1])))",
    "sets": "({k, 3} | {4}, k in {3, 4}, frozenset([k]) & {4}, {k: 1}.keys() & {4})",
    "dict methods": "({3: 'a', 4: 'b'}.get(k), dict.fromkeys([k], 1), {**{'a': k}}, dict([(k, 1)]), dict(zip('ab', (k, 1))))",
    "sorted with a key": "(sorted([3, 1, 2], key=lambda v: v * k), sorted([k, 5, 2], reverse=True), max('a', 'bbb', key=len), min([k, 9], key=lambda v: -v))",
    "struct sequences": "(slice(k).indices(9), slice(1, k), divmod(k, 2), pow(k, 2), pow(k, 2, 5), round(k, 1), round(k / 3, 2))",
    "int constructors": "(int(k), int(k / 2), float(k), bool(k), str(k), int('12', k + 2), int.from_bytes(b'ab', 'big') + k)",
    "re": "(re.sub('a', 'b', 'aaaaaa', k), re.match('(a)(b)(c)(d)(e)(f)', 'abcdef').group(k))",
    "torch sizes": "(torch.Size([k, 2]), torch.Size((k,)).numel(), torch.broadcast_shapes((k, 1), (1, 2)), torch.zeros(k).shape)",
    "torch types": "(torch.tensor(k).dtype, torch.tensor([k / 2]).dtype, torch.as_tensor(k), torch.scalar_tensor(k), torch.tensor([[k], [2]]))",
    "torch scalars": "(x + k, x * (k / 2), k - x, k / x, x ** k, k < x, x // k, x % k, torch.add(x, k, alpha=k), x.add(k / 3))",
    "torch predicates": "(torch.is_tensor(k), torch.numel(x), torch.result_type(x, k), torch.can_cast(torch.int, torch.float))",
    "hash and eq": "(hash(k) == hash(int(str(k))), k == int(str(k)), (k, 1) == (int(str(k)), 1), [k] == [3], {'a': k} == {'a': 3}, (k, 2) < (4, 1))",
    "vars and getattr": "(getattr(k, 'real'), hasattr(k, 'imag'), k.__class__, type(k).__name__, k.__doc__ is int.__doc__, dir(k) == dir(int))",
    "operator": "(operator.itemgetter(k)(list(range(9))), operator.mul(k, 2), operator.neg(k), operator.truth(k), operator.index(k), operator.xor(k, 1))",
    "string of a container": "(str([k]), repr((k, 'a')), f'{[k]}', str({'k': k}), repr(torch.Size([k])), str(types.SimpleNamespace(k=k)))",
    "strings joined": "(','.join(str(v) for v in (k, 2)), ','.join(map(repr, [k])))",
    "exceptions": "(ValueError(k).args, KeyError(k, 2).args)",
    "math": "(math.factorial(k), math.hypot(k, 4), math.atan2(k, 2), math.copysign(k, -1), math.isclose(k, 3), math.fmod(k, 2), math.ldexp(1.0, k), math.dist([k], [1]), math.prod([k, 2]), math.fsum([k, 0.5]), math.perm(k, 2), math.lcm(k, 4), math.radians(k), math.isfinite(k))",
}

_HEADER = """
import array, bisect, copy, datetime, decimal, fractions, heapq, itertools, json, numbers, pickle, random, re, statistics, struct
import numpy as np
class Color(enum.Enum):
    A = 1
    B = 2
    C = 3
    D = 4
class Flag(enum.IntFlag):
    A = 1
    B = 2
    C = 4
class Level(enum.IntEnum):
    A = 1
    B = 2
    C = 3
    D = 4
class Mine(int):
    def __add__(self, other):
        return Mine(int(self) + int(other))
    __radd__ = __add__
class Half(float):
    pass
def f(x, k):
    return x * 2, {expression}
"""

PROGRAMS = parse(
    "".join(
        f"\n### library: {name}{_HEADER.replace('{expression}', expression)}---\n@ f(X, n) | 3 4 5 6 4\n"
        for name, expression in _EXPRESSIONS.items()
    )
    + "".join(
        f"\n### library with a size: {name}{_HEADER.replace('{expression}', expression).replace('def f(x, k):', 'def f(x):').replace('return x', 'k = x.shape[0]; return x')}---\n@ f(T(n, 3)) | 3 4 5 6 4\n"
        for name, expression in _EXPRESSIONS.items()
    )
)
