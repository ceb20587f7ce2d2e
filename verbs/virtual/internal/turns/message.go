package turns

import (
	"encoding/binary"
	"errors"

	"github.com/sluice-rdma/sluice/units"
)

// Messages are packets of a SOCK_SEQPACKET socket, in the machine's byte order, as
// verbs/virtual/preload/turns.h has them. A thread sends a request and goes on when it has
// the reply: with a request that waits, when it has its turn again.

// version is that of the messages.
const version = 1

type op uint32

const (
	opHello   op = iota + 1 // a version, b the kernel's number of the thread
	opWait                  // a what for, until; with waitFDs the descriptors, and in data their numbers and events
	opTimer                 // a which, b signal, until when, c interval
	opSpawned               // a the kernel's number of a new process; the reply's value is ours
	opThread                // a the kernel's number of a new thread; the reply's value is ours
	opExec                  // the process is about to execute another program
	opSignal                // a process, b signal, c one of its threads, 0: any
	opPort                  // the reply's value is a port of the host that nobody has
	opProbed                // the thread was not found to loop; a the processor time that it was stepped for, in ns
	opEnd                   // the thread ends
	opRefused               // data is what can't be simulated
	opProcess               // the reply's value is the kernel's number of a's process or thread; b not 0: a is that, for ours
	opNice                  // the reply's value is the niceness of the process a; b not 0: which is set to c
	opTimerFD               // a its number, 0: a new one that counts in the descriptor which comes with it; the reply\'s value is its number, else b what
)

// What an opTimerFD asks for.
const (
	timerFDSet = iota // until when, c interval
	timerFDGet        // the reply's value is when it is due
	timerFDClose
)

type waitKind uint64

const (
	waitClock waitKind = iota + 1
	waitLook
	waitSleep
	waitFDs
	waitChild
	waitLock   // b not 0: other processes of its host may end it, too
	waitLoop   // the same
	waitThread // b the thread's number
	waitSignal // b signals that it takes although they are blocked: a bit for each
	waitOthers
)

// flagAgain says that since its last wait a thread only found that it has to wait again.
const flagAgain = 1

// flagClocks says of a waitClock that the thread has done nothing but read clocks for a
// while. Its answer may let it run far ahead of others that do so (readyFar).
const flagClocks = 2

// Bits of reply.ready.
const (
	readyEnded = 1 // the wait ended by what it was for, not by its time
	readyFar   = 2
	readyStill = 4 // of a probe: nothing has happened meanwhile
)

// flagGuessed is the scheduler's own, of a wait that it takes a thread to be in.
const flagGuessed = 1 << 31

const (
	requestSize = 48
	replySize   = 48
	maxData     = 4096
	maxFDs      = 250
)

type request struct {
	op         op
	flags      uint32
	now, until units.Time
	a, b, c    uint64
	data       []byte
}

var errShort = errors.New("shorter than a request")

func (r *request) decode(b []byte) error {
	if len(b) < requestSize {
		return errShort
	}
	e := binary.NativeEndian
	*r = request{
		op: op(e.Uint32(b)), flags: e.Uint32(b[4:]), now: units.Time(e.Uint64(b[8:])), until: units.Time(e.Uint64(b[16:])),
		a: e.Uint64(b[24:]), b: e.Uint64(b[32:]), c: e.Uint64(b[40:]), data: b[requestSize:],
	}
	if r.now < 0 || r.until < 0 {
		return errors.New("a time before the simulation")
	}
	return nil
}

func (r *request) waitsByClocks() bool {
	return r.op == opWait && waitKind(r.a) == waitClock && r.flags&flagClocks != 0
}

type reply struct {
	errno, ready uint32
	// alone and horizon are what the function horizon returns.
	now, alone, horizon units.Time
	signals             uint64
	value               uint64 // of opHello: thread.number
}

func (r *reply) append(b []byte) []byte {
	e := binary.NativeEndian
	b = e.AppendUint32(b, r.errno)
	b = e.AppendUint32(b, r.ready)
	b = e.AppendUint64(b, uint64(r.now))
	b = e.AppendUint64(b, uint64(r.alone))
	b = e.AppendUint64(b, uint64(r.horizon))
	b = e.AppendUint64(b, r.signals)
	return e.AppendUint64(b, r.value)
}

// welcome follows the reply to a process's first opHello.
type welcome struct {
	addr                             [16]byte
	clockCost, lookCost, epoch, boot int64
	tscHz, seed                      uint64
	pid, parent                      uint32
	host                             string
}

const hostSize = 64

func (w *welcome) append(b []byte) []byte {
	e := binary.NativeEndian
	b = append(b, w.addr[:]...)
	b = e.AppendUint64(b, uint64(w.clockCost))
	b = e.AppendUint64(b, uint64(w.lookCost))
	b = e.AppendUint64(b, uint64(w.epoch))
	b = e.AppendUint64(b, uint64(w.boot))
	b = e.AppendUint64(b, w.tscHz)
	b = e.AppendUint64(b, w.seed)
	b = e.AppendUint32(b, w.pid)
	b = e.AppendUint32(b, w.parent)
	var host [hostSize]byte
	copy(host[:hostSize-1], w.host)
	return append(b, host[:]...)
}
