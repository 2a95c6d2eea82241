"""What the pool is given to run in tests, in LLVM's text, and how to run it."""

import ctypes
import os
import signal
import warnings

from chainrule.execute.native.runtime.pool import pool
from chainrule.machine_code.target import compile_object, host_target, load_objects

# record: entry `index` of the array becomes count.
# meet: argument is {arrived, wait, entries}; as record, and nobody returns before all have come.
# linger: as meet, after a while.  hold: as meet, once gate is not 0.  tarry: as meet, and then all
#   but index 0 stay until gate is not 0.  Who has waited for ten seconds in vain makes it 2.
#   holding is how many have come to the gate.
# status: as meet, but the entries are given, and each is what the index returns.
# nest: argument is {arrived, wait, pool, run, record, array}.
# share: argument is {next, parts, owner, done}; the parts are claimed one by one, counted in done.
#   inside is how many threads are in it, and late how many found that they should not be.
# jobs: runs share again and again on two arguments in turn, which have no owner between the runs;
#   gives what went wrong: parts not done exactly once, and threads that were late.
# phases: argument is {wait, parts, phases, next, done, entries}; in each phase the parts are
#   claimed one by one and write the phase's number; behind a wait, what is older is counted.
CODE = """
declare i32 @usleep(i32)
@inside = global i64 0
@late = global i64 0
@gate = global i64 0
@holding = global i64 0
define i64 @record(ptr %array, i64 %index, i64 %count) {
  %entry = getelementptr i64, ptr %array, i64 %index
  store i64 %count, ptr %entry
  ret i64 0
}
define void @gather(ptr %argument, i64 %count) {
  %wait_at = getelementptr i64, ptr %argument, i64 1
  %wait = load ptr, ptr %wait_at
  %before = atomicrmw add ptr %argument, i64 1 release
  call void %wait(ptr %argument, i64 %count)
  ret void
}
define i64 @meet(ptr %argument, i64 %index, i64 %count) {
  %entries = getelementptr i64, ptr %argument, i64 2
  %status = call i64 @record(ptr %entries, i64 %index, i64 %count)
  call void @gather(ptr %argument, i64 %count)
  ret i64 %status
}
define i64 @linger(ptr %argument, i64 %index, i64 %count) {
  %ignored = call i32 @usleep(i32 200000)
  %status = call i64 @meet(ptr %argument, i64 %index, i64 %count)
  ret i64 %status
}
define void @stay() {
entry:
  %before = atomicrmw add ptr @holding, i64 1 seq_cst
  br label %look
look:
  %round = phi i64 [0, %entry], [%later, %closed]
  %gate = load atomic i64, ptr @gate seq_cst, align 8
  %open = icmp ne i64 %gate, 0
  br i1 %open, label %end, label %closed
closed:
  %ignored = call i32 @usleep(i32 1000)
  %later = add i64 %round, 1
  %patient = icmp ult i64 %later, 10000
  br i1 %patient, label %look, label %tired
tired:
  store atomic i64 2, ptr @gate seq_cst, align 8
  br label %end
end:
  ret void
}
define i64 @hold(ptr %argument, i64 %index, i64 %count) {
  call void @stay()
  %status = call i64 @meet(ptr %argument, i64 %index, i64 %count)
  ret i64 %status
}
define i64 @tarry(ptr %argument, i64 %index, i64 %count) {
  %status = call i64 @meet(ptr %argument, i64 %index, i64 %count)
  %first = icmp eq i64 %index, 0
  br i1 %first, label %end, label %others
others:
  call void @stay()
  br label %end
end:
  ret i64 %status
}
define i64 @status(ptr %argument, i64 %index, i64 %count) {
  %entries = getelementptr i64, ptr %argument, i64 2
  %entry = getelementptr i64, ptr %entries, i64 %index
  call void @gather(ptr %argument, i64 %count)
  %status = load i64, ptr %entry
  ret i64 %status
}
define i64 @toil(ptr %array, i64 %index, i64 %count) {
  %entry = getelementptr i64, ptr %array, i64 %index
  br label %again
again:
  store volatile i64 %count, ptr %entry
  br label %again
}
define i64 @nest(ptr %argument, i64 %index, i64 %count) {
  %pool_at = getelementptr i64, ptr %argument, i64 2
  %run_at = getelementptr i64, ptr %argument, i64 3
  %record_at = getelementptr i64, ptr %argument, i64 4
  %array = getelementptr i64, ptr %argument, i64 5
  %own = getelementptr i64, ptr %array, i64 %index
  %pool = load ptr, ptr %pool_at
  %run = load ptr, ptr %run_at
  %record = load ptr, ptr %record_at
  %status = call i64 %run(ptr %pool, ptr %record, ptr %own, i64 %count)
  call void @gather(ptr %argument, i64 %count)
  ret i64 %status
}
define void @complain(i1 %wrong) {
  %one = zext i1 %wrong to i64
  %before = atomicrmw add ptr @late, i64 %one monotonic
  ret void
}
define i64 @share(ptr %argument, i64 %index, i64 %count) {
  %entered = atomicrmw add ptr @inside, i64 1 seq_cst
  %parts_at = getelementptr i64, ptr %argument, i64 1
  %owner_at = getelementptr i64, ptr %argument, i64 2
  %done = getelementptr i64, ptr %argument, i64 3
  %owner = load atomic i64, ptr %owner_at seq_cst, align 8
  %nobody = icmp eq i64 %owner, 0
  call void @complain(i1 %nobody)
  %parts = load i64, ptr %parts_at
  br label %claim
claim:
  %part = atomicrmw add ptr %argument, i64 1 monotonic
  %more = icmp slt i64 %part, %parts
  br i1 %more, label %work, label %end
work:
  %done_at = getelementptr i64, ptr %done, i64 %part
  %before = atomicrmw add ptr %done_at, i64 1 monotonic
  br label %claim
end:
  %owner_now = load atomic i64, ptr %owner_at seq_cst, align 8
  %another = icmp ne i64 %owner_now, %owner
  call void @complain(i1 %another)
  %left = atomicrmw sub ptr @inside, i64 1 seq_cst
  ret i64 0
}
define i64 @jobs(ptr %pool, ptr %run, ptr %arguments, i64 %parts, i64 %count, i64 %jobs) {
entry:
  store i64 0, ptr @late
  br label %job
job:
  %k = phi i64 [1, %entry], [%following, %checked]
  %wrong_before = phi i64 [0, %entry], [%wrong, %checked]
  %turn = and i64 %k, 1
  %offset = mul i64 %turn, 16
  %argument = getelementptr i64, ptr %arguments, i64 %offset
  %parts_at = getelementptr i64, ptr %argument, i64 1
  %owner_at = getelementptr i64, ptr %argument, i64 2
  %done = getelementptr i64, ptr %argument, i64 3
  store i64 %parts, ptr %parts_at
  store atomic i64 0, ptr %argument seq_cst, align 8
  store atomic i64 %k, ptr %owner_at seq_cst, align 8
  %status = call i64 %run(ptr %pool, ptr @share, ptr %argument, i64 %count)
  store atomic i64 0, ptr %owner_at seq_cst, align 8
  %inside = load atomic i64, ptr @inside seq_cst, align 8
  %somebody = icmp ne i64 %inside, 0
  call void @complain(i1 %somebody)
  br label %check
check:
  %i = phi i64 [0, %job], [%i_next, %one]
  %wrong = phi i64 [%wrong_before, %job], [%wrong_after, %one]
  %more = icmp slt i64 %i, %parts
  br i1 %more, label %one, label %checked
one:
  %done_at = getelementptr i64, ptr %done, i64 %i
  %times = load i64, ptr %done_at
  store i64 0, ptr %done_at
  %not_once = icmp ne i64 %times, 1
  %fault = zext i1 %not_once to i64
  %wrong_after = add i64 %wrong, %fault
  %i_next = add i64 %i, 1
  br label %check
checked:
  %following = add i64 %k, 1
  %again = icmp sle i64 %following, %jobs
  br i1 %again, label %job, label %end
end:
  %ignored = call i32 @usleep(i32 1000)
  %late = load atomic i64, ptr @late seq_cst, align 8
  %total = add i64 %wrong, %late
  ret i64 %total
}
define i64 @phases(ptr %argument, i64 %index, i64 %count) {
entry:
  %parts_at = getelementptr i64, ptr %argument, i64 1
  %phases_at = getelementptr i64, ptr %argument, i64 2
  %next = getelementptr i64, ptr %argument, i64 3
  %done = getelementptr i64, ptr %argument, i64 4
  %entries = getelementptr i64, ptr %argument, i64 5
  %wait = load ptr, ptr %argument
  %parts = load i64, ptr %parts_at
  %phases = load i64, ptr %phases_at
  br label %phase
phase:
  %k = phi i64 [1, %entry], [%following, %checked]
  %wrong_before = phi i64 [0, %entry], [%wrong_after, %checked]
  %target = mul i64 %k, %parts
  %base = sub i64 %target, %parts
  br label %claim
claim:
  %claimed = load atomic i64, ptr %next monotonic, align 8
  %more = icmp slt i64 %claimed, %target
  br i1 %more, label %take, label %behind
take:
  %claimed_next = add i64 %claimed, 1
  %exchange = cmpxchg ptr %next, i64 %claimed, i64 %claimed_next monotonic monotonic
  %mine = extractvalue {i64, i1} %exchange, 1
  br i1 %mine, label %work, label %claim
work:
  %part = sub i64 %claimed, %base
  %own = getelementptr i64, ptr %entries, i64 %part
  store atomic i64 %k, ptr %own monotonic, align 8
  %one_more = atomicrmw add ptr %done, i64 1 release
  br label %claim
behind:
  call void %wait(ptr %done, i64 %target)
  br label %check
check:
  %i = phi i64 [0, %behind], [%i_next, %check]
  %wrong = phi i64 [%wrong_before, %behind], [%wrong_after, %check]
  %other = getelementptr i64, ptr %entries, i64 %i
  %seen = load atomic i64, ptr %other monotonic, align 8
  %older = icmp slt i64 %seen, %k
  %one = zext i1 %older to i64
  %wrong_after = add i64 %wrong, %one
  %i_next = add i64 %i, 1
  %rest = icmp slt i64 %i_next, %parts
  br i1 %rest, label %check, label %checked
checked:
  %following = add i64 %k, 1
  %again = icmp sle i64 %following, %phases
  br i1 %again, label %phase, label %end
end:
  ret i64 %wrong_after
}
"""
WIDTH = 8


def loaded():
    return load_objects([compile_object(CODE, host_target())], {})


def array(*values):
    return (ctypes.c_int64 * max(len(values), WIDTH))(*values)


def record(library, threads, count, name="meet"):
    """What each index was told as the count; 0 for those that were not called."""
    here = pool(threads)
    entries = array(0, here.wait_address, *[0] * WIDTH)
    here.run(library.address(name), ctypes.addressof(entries), count)
    return list(entries)[2:]


def in_child(function):
    """The function's value, from a child process made by fork, as bytes; b"" if it did not end."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside threads, since 3.12
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # a deadlock ends the child, not the tests
        try:
            os.write(write, repr(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said
