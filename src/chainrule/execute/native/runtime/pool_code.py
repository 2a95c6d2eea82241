"""The machine code of the pool of threads, as LLVM's text; `pool.py` says what it promises."""

from __future__ import annotations

from string import Template

IDLE_NANOSECONDS = 100_000  # a worker without work looks out for some this long, then sleeps
SPINS = 2_000  # a thread that waits for another looks this often, then lets others run between
PATIENCE = 4_000  # and the caller of `run` sleeps after this many looks

# The memory of a pool.  What different threads write is 128 bytes apart: processors fetch lines
# of 64 bytes in pairs.
POOL = {
    "THREADS": 0,  # how many there are, the caller included
    "BUSY": 128,  # 1 while a thread is in `run`
    "STATE": 256,  # of the job, as below
    "FUNCTION": 264,
    "ARGUMENT": 272,
    "COUNT": 280,
    "FINISHED": 384,  # 32 bits: how many workers have done with the job; top bit: the caller sleeps
    "STATUS": 392,  # the first of theirs that is not 0
    "REST": 512,  # high half: workers asleep; low half: those called, and not up yet
}
POOL_NBYTES = 640

# The state of a job is one word: from below, how many workers may still come, how many have come,
# whether it is open, and its number.  Workers join by exchanging the whole word, which fails for
# a job that was closed in between, even if another is open now.
WORKERS_BITS = 10
MOST_WORKERS = (1 << WORKERS_BITS) - 1
OPEN = 1 << 2 * WORKERS_BITS
NUMBER = 2 * OPEN
ASLEEP = 1 << 32  # one worker, in REST

# The number of the system call `futex`, and the instruction that tells a core that it waits.
FUTEX = {"x86_64": 202, "aarch64": 98}
PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
PAUSE_TYPE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32)"}

# A worker says that it sleeps before it looks at the state for the last time, and the caller looks
# who sleeps after it wrote the state; both are sequentially consistent, so at least one of them
# sees the other's.  Who calls a sleeper takes it out of those asleep, so that the next job does
# not call it again while it gets up.  The caller wakes only one: that takes the time of the
# message to another core; each that was woken and joins wakes two more.
CODE = Template("""
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare void $pause_type

define internal void @relax(i64 %round) nounwind {
  %early = icmp ult i64 %round, $spins
  br i1 %early, label %spin, label %yield
spin:
  call void $pause
  ret void
yield:
  %ignored = call i32 @sched_yield()
  ret void
}

define internal i64 @nanoseconds(ptr %clock) nounwind {
  %ignored = call i32 @clock_gettime(i32 1, ptr %clock)
  %seconds = load i64, ptr %clock
  %rest_at = getelementptr i8, ptr %clock, i64 8
  %rest = load i64, ptr %rest_at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}

; Wakes at most this many workers, and only if those awake are too few for a job of this count.
define internal void @rouse(ptr %pool, i64 %count, i64 %most) nounwind {
  %threads_at = getelementptr i8, ptr %pool, i64 $THREADS
  %rest = getelementptr i8, ptr %pool, i64 $REST
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %spare = sub i64 %threads, %count
  br label %look
look:
  %seen = load atomic i64, ptr %rest seq_cst, align 8
  %asleep = lshr i64 %seen, 32
  %needed = sub i64 %asleep, %spare
  %number = call i64 @llvm.smin.i64(i64 %needed, i64 %most)
  %some = icmp sgt i64 %number, 0
  br i1 %some, label %take, label %end
take:
  %change = mul i64 %number, $asleep_less_called
  %new = sub i64 %seen, %change
  %exchange = cmpxchg ptr %rest, i64 %seen, i64 %new seq_cst seq_cst
  %taken = extractvalue {i64, i1} %exchange, 1
  br i1 %taken, label %wake, label %look
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $futex, ptr %rest, i32 129, i64 %number)
  ret void
end:
  ret void
}

define i64 @chainrule_run(ptr %pool, ptr %function, ptr %argument, i64 %asked) nounwind {
  %threads_at = getelementptr i8, ptr %pool, i64 $THREADS
  %busy = getelementptr i8, ptr %pool, i64 $BUSY
  %state = getelementptr i8, ptr %pool, i64 $STATE
  %function_at = getelementptr i8, ptr %pool, i64 $FUNCTION
  %argument_at = getelementptr i8, ptr %pool, i64 $ARGUMENT
  %count_at = getelementptr i8, ptr %pool, i64 $COUNT
  %finished = getelementptr i8, ptr %pool, i64 $FINISHED
  %status_at = getelementptr i8, ptr %pool, i64 $STATUS
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %count = call i64 @llvm.smin.i64(i64 %asked, i64 %threads)
  %together = icmp sgt i64 %count, 1
  br i1 %together, label %lock, label %alone
lock:
  %exchange = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %locked = extractvalue {i32, i1} %exchange, 1
  br i1 %locked, label %publish, label %alone
alone:
  %only = call i64 %function(ptr %argument, i64 0, i64 1)
  ret i64 %only
publish:
  store ptr %function, ptr %function_at
  store ptr %argument, ptr %argument_at
  store i64 %count, ptr %count_at
  store i64 0, ptr %status_at
  store atomic i32 0, ptr %finished monotonic, align 4
  %old = load atomic i64, ptr %state monotonic, align 8
  %old_number = and i64 %old, $number_mask
  %number = add i64 %old_number, $first
  %new = add i64 %number, %count
  store atomic i64 %new, ptr %state seq_cst, align 8
  call void @rouse(ptr %pool, i64 %count, i64 1)
  %own = call i64 %function(ptr %argument, i64 0, i64 %count)
  %last = atomicrmw sub ptr %state, i64 $open acq_rel
  %shifted = lshr i64 %last, $workers_bits
  %joined_wide = and i64 %shifted, $workers
  %joined = trunc i64 %joined_wide to i32
  br label %wait
wait:
  %round = phi i64 [0, %publish], [%later, %watch], [%round, %sleep]
  %flagged = load atomic i32, ptr %finished acquire, align 4
  %left = and i32 %flagged, 2147483647
  %all = icmp eq i32 %left, %joined
  br i1 %all, label %end, label %waiting
waiting:
  %patient = icmp ult i64 %round, $patience
  br i1 %patient, label %watch, label %lie_down
watch:
  call void @relax(i64 %round)
  %later = add i64 %round, 1
  br label %wait
lie_down:
  %before = atomicrmw or ptr %finished, i32 -2147483648 acq_rel
  %left_now = and i32 %before, 2147483647
  %all_now = icmp eq i32 %left_now, %joined
  br i1 %all_now, label %end, label %sleep
sleep:
  %seen = or i32 %before, -2147483648
  call i64 (i64, ...) @syscall(i64 $futex, ptr %finished, i32 128, i32 %seen, ptr null)
  br label %wait
end:
  %theirs = load atomic i64, ptr %status_at monotonic, align 8
  store atomic i32 0, ptr %busy release, align 4
  %good = icmp eq i64 %own, 0
  %status = select i1 %good, i64 %theirs, i64 %own
  ret i64 %status
}

define void @chainrule_wait(ptr %counter, i64 %target) nounwind {
entry:
  br label %look
look:
  %round = phi i64 [0, %entry], [%later, %waiting]
  %now = load atomic i64, ptr %counter acquire, align 8
  %reached = icmp sge i64 %now, %target
  br i1 %reached, label %end, label %waiting
waiting:
  call void @relax(i64 %round)
  %later = add i64 %round, 1
  br label %look
end:
  ret void
}

define ptr @chainrule_worker(ptr %pool) nounwind {
entry:
  %clock = alloca [2 x i64]
  %state = getelementptr i8, ptr %pool, i64 $STATE
  %function_at = getelementptr i8, ptr %pool, i64 $FUNCTION
  %argument_at = getelementptr i8, ptr %pool, i64 $ARGUMENT
  %count_at = getelementptr i8, ptr %pool, i64 $COUNT
  %finished = getelementptr i8, ptr %pool, i64 $FINISHED
  %status_at = getelementptr i8, ptr %pool, i64 $STATUS
  %rest = getelementptr i8, ptr %pool, i64 $REST
  br label %idle
idle:
  %known = phi i64 [0, %entry], [%seen, %look_up], [%known, %rise], [%new, %finish], [%new, %wake]
  %start = call i64 @nanoseconds(ptr %clock)
  br label %look
look:
  %round = phi i64 [0, %idle], [%later, %waiting], [%later, %watch], [%round, %join]
  %seen = load atomic i64, ptr %state acquire, align 8
  %welcome = and i64 %seen, $open_places
  %open = icmp ugt i64 %welcome, $open
  br i1 %open, label %join, label %waiting
waiting:
  call void $pause
  %later = add i64 %round, 1
  %low = and i64 %later, 63
  %check = icmp eq i64 %low, 0
  br i1 %check, label %look_up, label %look
look_up:
  %places = and i64 %seen, $workers
  %was_full = icmp eq i64 %places, 0
  %is_known = icmp eq i64 %seen, %known
  %nothing_missed = or i1 %was_full, %is_known
  br i1 %nothing_missed, label %watch, label %idle
watch:
  %now = call i64 @nanoseconds(ptr %clock)
  %passed = sub i64 %now, %start
  %tired = icmp ugt i64 %passed, $idle
  br i1 %tired, label %lie_down, label %look
lie_down:
  %laid = atomicrmw add ptr %rest, i64 $asleep seq_cst
  %dreamt = load atomic i64, ptr %state seq_cst, align 8
  %dreamt_welcome = and i64 %dreamt, $open_places
  %late = icmp ugt i64 %dreamt_welcome, $open
  br i1 %late, label %rise, label %sleep
sleep:
  %resting = load atomic i64, ptr %rest monotonic, align 8
  %calls = trunc i64 %resting to i32
  %called = icmp ne i32 %calls, 0
  br i1 %called, label %rise, label %doze
doze:
  %ignored = call i64 (i64, ...) @syscall(i64 $futex, ptr %rest, i32 128, i32 0, ptr null)
  br label %sleep
rise:
  %lying = load atomic i64, ptr %rest monotonic, align 8
  %calls_now = trunc i64 %lying to i32
  %uncalled = icmp eq i32 %calls_now, 0
  %one = select i1 %uncalled, i64 $asleep, i64 1
  %risen = sub i64 %lying, %one
  %rising = cmpxchg ptr %rest, i64 %lying, i64 %risen seq_cst seq_cst
  %up = extractvalue {i64, i1} %rising, 1
  br i1 %up, label %idle, label %rise
join:
  %new = add i64 %seen, $workers
  %joining = cmpxchg ptr %state, i64 %seen, i64 %new acq_rel acquire
  %joined = extractvalue {i64, i1} %joining, 1
  br i1 %joined, label %work, label %look
work:
  %function = load ptr, ptr %function_at
  %argument = load ptr, ptr %argument_at
  %count = load i64, ptr %count_at
  %places_left = and i64 %new, $workers
  %most = call i64 @llvm.smin.i64(i64 %places_left, i64 2)
  call void @rouse(ptr %pool, i64 %count, i64 %most)
  %shifted = lshr i64 %new, $workers_bits
  %index = and i64 %shifted, $workers
  %status = call i64 %function(ptr %argument, i64 %index, i64 %count)
  %good = icmp eq i64 %status, 0
  br i1 %good, label %finish, label %report
report:
  %reported = cmpxchg ptr %status_at, i64 0, i64 %status monotonic monotonic
  br label %finish
finish:
  %before = atomicrmw add ptr %finished, i32 1 acq_rel
  %sleeps = icmp slt i32 %before, 0
  br i1 %sleeps, label %wake, label %idle
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $futex, ptr %finished, i32 129, i32 1)
  br label %idle
}
""")


def runtime_text(architecture: str) -> str:
    """The module that defines chainrule_run, chainrule_wait and chainrule_worker.

    `void* chainrule_worker(void* pool)` is what a thread is started with.
    """
    return CODE.substitute(
        POOL,
        workers=MOST_WORKERS,
        workers_bits=WORKERS_BITS,
        open=OPEN,
        open_places=OPEN | MOST_WORKERS,
        number_mask=-NUMBER,
        first=NUMBER + OPEN - 1,  # and the count, of which one is the caller
        asleep=ASLEEP,
        asleep_less_called=ASLEEP - 1,
        futex=FUTEX[architecture],
        pause=PAUSE[architecture],
        pause_type=PAUSE_TYPE[architecture],
        spins=SPINS,
        patience=PATIENCE,
        idle=IDLE_NANOSECONDS,
    )
