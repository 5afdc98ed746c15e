import threading

import pytest

from gym_batchnav.collect.pool import WriterPool


def test_what_waits_is_bounded_by_a_slow_writer():
    """With writers that never finish, only so many jobs are taken; the next ``submit`` waits."""
    gate = threading.Event()
    begun = []
    taken = []

    def job(number):
        begun.append(number)
        gate.wait()

    def produce():
        with WriterPool(2, num_waiting=3) as pool:
            for number in range(20):
                pool.submit(job, number)
                taken.append(number)

    producer = threading.Thread(target=produce)
    producer.start()
    for _ in range(100):
        producer.join(0.01)
    assert len(taken) == 5 and len(begun) == 2  # two in work and three that wait
    gate.set()
    producer.join()
    assert sorted(begun) == list(range(20))


def test_errors_of_writers_stop_the_run():
    def fail():
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"), WriterPool(1) as pool:
        for _ in range(50):
            pool.submit(fail)
    with pytest.raises(OSError, match="no space left"), WriterPool(1) as pool:
        pool.submit(fail)


def test_an_error_of_the_run_is_not_hidden():
    with pytest.raises(KeyError), WriterPool(1) as pool:
        pool.submit(lambda: None)
        raise KeyError("run")
