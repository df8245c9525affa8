"""The program that reads a MATLAB file for `_mat.read_mat`. It imports nothing of hierbench, so that it starts quickly.

Takes sys.path as its arguments, a pickled (content, names, bytes of memory) as its input. Writes the
variables, pickled; ends with status 1 and a line where it cannot.
"""

import contextlib
import io
import pickle
import sys


def main() -> None:
    """Read what stands in the input, answer, end."""
    sys.path[:] = sys.argv[1:]
    import scipy.io

    content, names, memory = pickle.load(sys.stdin.buffer)
    with contextlib.suppress(ImportError, OSError, ValueError):  # systems without such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        read = scipy.io.loadmat(io.BytesIO(content), squeeze_me=True, variable_names=names)
        answer = pickle.dumps({name: read[name] for name in names if name in read})
    except Exception as error:  # scipy raises nearly anything on corrupt input
        sys.exit(str(error) or type(error).__name__)
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main()
