"""One of several ranks on one stream: it writes a thousand records per second, between bars and text like those of
training scripts.

    chatty_rank.py RANK RECORDS COUNT_FILE

Bars are written as tqdm does: a carriage return, the bar, no line end, to stderr. COUNT_FILE gets the number of bytes that are
not records.
"""

import sys
import time

import svc

rank, records, count_file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
written = 0


def say(stream, text):
    global written
    stream.write(text)
    stream.flush()
    written += len(text.encode())


began = time.monotonic()
for step in range(records):
    svc.log({"loss": 1 / (step + 1), "rank": rank}, step=step, all_ranks=True)
    if step % 20 == 0:
        say(sys.stderr, "\rrank {}: {:3.0%}|{:<10}| {}/{}".format(rank, step / records, "█" * (10 * step // records), step, records))
    if step % 50 == 0:
        say(sys.stdout, "rank {} is at ".format(rank))
        say(sys.stdout, "step {}\n".format(step))
    time.sleep(max(0.0, began + (step + 1) / 1000 - time.monotonic()))
with open(count_file, "w", encoding="ascii") as file:
    file.write("{} {}".format(written, time.monotonic() - began))
