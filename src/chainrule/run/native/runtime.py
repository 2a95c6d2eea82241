"""The machine code of the pool of threads, as LLVM's text; `pool.py` says what it promises."""

from __future__ import annotations

from string import Template

IDLE_NANOSECONDS = 40_000  # a worker without work looks out for some this long, then sleeps
SPINS = 2_000  # a thread that waits for another looks this often, then lets others run between

# The memory of a pool.  What different threads write is 128 bytes apart: processors fetch lines
# of 64 bytes in pairs.  A slot is where a worker gets its work; slot 0 is not used.
POOL = {"THREADS": 0, "BUSY": 128, "PENDING": 256, "ARRIVED": 384, "PHASE": 512, "SLOTS": 640}
SLOT_NBYTES = 128
SLOT = {
    "TICKET": 0,
    "ASLEEP": 4,
    "FUNCTION": 8,
    "ARGUMENT": 16,
    "COUNT": 24,
    "INDEX": 32,
    "POOL": 40,
    "STATUS": 48,
}

# The number of the system call `futex`, and the instruction that tells a core that it waits.
FUTEX = {"x86_64": 202, "aarch64": 98}
PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
PAUSE_TYPE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32)"}

# A worker is given work by a new number in its slot's ticket.  It says that it sleeps before it
# looks at the ticket for the last time, and the caller looks whether it sleeps after it wrote
# the ticket; both are sequentially consistent, so at least one of them sees the other's.
CODE = Template("""
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
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

define i64 @chainrule_run(ptr %pool, ptr %function, ptr %argument, i64 %asked) nounwind {
  %threads_at = getelementptr i8, ptr %pool, i64 $THREADS
  %busy = getelementptr i8, ptr %pool, i64 $BUSY
  %pending = getelementptr i8, ptr %pool, i64 $PENDING
  %slots = getelementptr i8, ptr %pool, i64 $SLOTS
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %fewer = icmp slt i64 %asked, %threads
  %count = select i1 %fewer, i64 %asked, i64 %threads
  %together = icmp sgt i64 %count, 1
  br i1 %together, label %lock, label %alone
lock:
  %exchange = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %locked = extractvalue {i32, i1} %exchange, 1
  br i1 %locked, label %begin, label %alone
alone:
  %only = call i64 %function(ptr %argument, i64 0, i64 1)
  ret i64 %only
begin:
  %narrow = trunc i64 %count to i32
  %others = sub i32 %narrow, 1
  store atomic i32 %others, ptr %pending monotonic, align 4
  br label %post
post:
  %index = phi i64 [1, %begin], [%following, %posted]
  %offset = mul i64 %index, $SLOT_NBYTES
  %slot = getelementptr i8, ptr %slots, i64 %offset
  %function_at = getelementptr i8, ptr %slot, i64 $FUNCTION
  %argument_at = getelementptr i8, ptr %slot, i64 $ARGUMENT
  %count_at = getelementptr i8, ptr %slot, i64 $COUNT
  %asleep_at = getelementptr i8, ptr %slot, i64 $ASLEEP
  store ptr %function, ptr %function_at
  store ptr %argument, ptr %argument_at
  store i64 %count, ptr %count_at
  %old = load atomic i32, ptr %slot monotonic, align 4
  %new = add i32 %old, 1
  store atomic i32 %new, ptr %slot seq_cst, align 4
  %asleep = load atomic i32, ptr %asleep_at seq_cst, align 4
  %awake = icmp eq i32 %asleep, 0
  br i1 %awake, label %posted, label %wake
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $futex, ptr %slot, i32 129, i32 1)
  br label %posted
posted:
  %following = add i64 %index, 1
  %another = icmp slt i64 %following, %count
  br i1 %another, label %post, label %own
own:
  %status = call i64 %function(ptr %argument, i64 0, i64 %count)
  br label %wait
wait:
  %round = phi i64 [0, %own], [%later, %waiting]
  %left = load atomic i32, ptr %pending acquire, align 4
  %finished = icmp eq i32 %left, 0
  br i1 %finished, label %gather, label %waiting
waiting:
  call void @relax(i64 %round)
  %later = add i64 %round, 1
  br label %wait
gather:
  %at = phi i64 [1, %wait], [%at_next, %gather]
  %so_far = phi i64 [%status, %wait], [%chosen, %gather]
  %status_offset = mul i64 %at, $SLOT_NBYTES
  %status_slot = getelementptr i8, ptr %slots, i64 %status_offset
  %status_at = getelementptr i8, ptr %status_slot, i64 $STATUS
  %theirs = load i64, ptr %status_at
  %good = icmp eq i64 %so_far, 0
  %chosen = select i1 %good, i64 %theirs, i64 %so_far
  %at_next = add i64 %at, 1
  %more = icmp slt i64 %at_next, %count
  br i1 %more, label %gather, label %end
end:
  store atomic i32 0, ptr %busy release, align 4
  ret i64 %chosen
}

define void @chainrule_wait(ptr %counter, i64 %target) nounwind {
  br label %look
look:
  %round = phi i64 [0, %0], [%later, %waiting]
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

define void @chainrule_barrier(ptr %pool, i64 %count) nounwind {
  %several = icmp sgt i64 %count, 1
  br i1 %several, label %arrive, label %end
arrive:
  %arrived = getelementptr i8, ptr %pool, i64 $ARRIVED
  %phase = getelementptr i8, ptr %pool, i64 $PHASE
  %old = load atomic i32, ptr %phase monotonic, align 4
  %before = atomicrmw add ptr %arrived, i32 1 acq_rel
  %narrow = trunc i64 %count to i32
  %last = sub i32 %narrow, 1
  %is_last = icmp eq i32 %before, %last
  br i1 %is_last, label %open, label %wait
open:
  store atomic i32 0, ptr %arrived monotonic, align 4
  %new = add i32 %old, 1
  store atomic i32 %new, ptr %phase release, align 4
  ret void
wait:
  %round = phi i64 [0, %arrive], [%later, %waiting]
  %now = load atomic i32, ptr %phase acquire, align 4
  %opened = icmp ne i32 %now, %old
  br i1 %opened, label %end, label %waiting
waiting:
  call void @relax(i64 %round)
  %later = add i64 %round, 1
  br label %wait
end:
  ret void
}

define ptr @chainrule_worker(ptr %slot) nounwind {
entry:
  %clock = alloca [2 x i64]
  %asleep = getelementptr i8, ptr %slot, i64 $ASLEEP
  %function_at = getelementptr i8, ptr %slot, i64 $FUNCTION
  %argument_at = getelementptr i8, ptr %slot, i64 $ARGUMENT
  %count_at = getelementptr i8, ptr %slot, i64 $COUNT
  %index_at = getelementptr i8, ptr %slot, i64 $INDEX
  %pool_at = getelementptr i8, ptr %slot, i64 $POOL
  %status_at = getelementptr i8, ptr %slot, i64 $STATUS
  %index = load i64, ptr %index_at
  %pool = load ptr, ptr %pool_at
  %pending = getelementptr i8, ptr %pool, i64 $PENDING
  br label %idle
idle:
  %done = phi i32 [0, %entry], [%ticket, %work]
  %start = call i64 @nanoseconds(ptr %clock)
  br label %look
look:
  %round = phi i64 [0, %idle], [%later, %waiting], [%later, %watch]
  %seen = load atomic i32, ptr %slot acquire, align 4
  %called = icmp ne i32 %seen, %done
  br i1 %called, label %work, label %waiting
waiting:
  call void $pause
  %later = add i64 %round, 1
  %low = and i64 %later, 63
  %check = icmp eq i64 %low, 0
  br i1 %check, label %watch, label %look
watch:
  %now = call i64 @nanoseconds(ptr %clock)
  %passed = sub i64 %now, %start
  %tired = icmp ugt i64 %passed, $idle
  br i1 %tired, label %lie_down, label %look
lie_down:
  store atomic i32 1, ptr %asleep seq_cst, align 4
  br label %sleep
sleep:
  %dreamt = load atomic i32, ptr %slot seq_cst, align 4
  %roused = icmp ne i32 %dreamt, %done
  br i1 %roused, label %rise, label %doze
doze:
  %ignored = call i64 (i64, ...) @syscall(i64 $futex, ptr %slot, i32 128, i32 %done, ptr null)
  br label %sleep
rise:
  store atomic i32 0, ptr %asleep monotonic, align 4
  br label %work
work:
  %ticket = phi i32 [%seen, %look], [%dreamt, %rise]
  %function = load ptr, ptr %function_at
  %argument = load ptr, ptr %argument_at
  %count = load i64, ptr %count_at
  %status = call i64 %function(ptr %argument, i64 %index, i64 %count)
  store i64 %status, ptr %status_at
  %left = atomicrmw sub ptr %pending, i32 1 release
  br label %idle
}
""")


def runtime_text(architecture: str) -> str:
    """The module that defines chainrule_run, chainrule_barrier and chainrule_worker.

    `void* chainrule_worker(void* slot)` is what a thread is started with.
    """
    return CODE.substitute(
        POOL | SLOT,
        SLOT_NBYTES=SLOT_NBYTES,
        futex=FUTEX[architecture],
        pause=PAUSE[architecture],
        pause_type=PAUSE_TYPE[architecture],
        spins=SPINS,
        idle=IDLE_NANOSECONDS,
    )
