package turns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The kernel gives each program that is executed 16 random bytes (AT_RANDOM), of which the C library makes what guards stacks
// and pointers: programs may send what these leave in their memory. The scheduler traces a process from execve to its first
// instruction, and writes bytes of its own there. Where the kernel grants no tracing, they stay as they are.

// startTraced starts a program, and reports whether it stands at its first instruction.
func startTraced(g *Program) (traced bool, err error) {
	g.Command.SysProcAttr.Ptrace = true
	if err := g.Command.Start(); err == nil {
		return true, nil
	}
	g.Command.SysProcAttr.Ptrace = false
	return false, g.Command.Start()
}

// trace has a process stop when it has executed another program.
func (p *process) trace() {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p.pid), 0, unix.PTRACE_O_TRACEEXEC, 0, 0)
	p.traced = errno == 0
}

// awaitExec gives a process that is traced its random bytes when it has executed a program, and traces it no more.
func (p *process) awaitExec() {
	for p.traced {
		ws, err := awaitStop(p.pid)
		p.onStop(ws, err)
	}
}

// passSignals has a process that is traced, and has not executed its program yet, go on where a signal stopped it, as each one
// does. It reports whether one had.
func (p *process) passSignals() (passed bool) {
	for p.traced {
		// With what waitid leaves to be waited for, wait4 takes no end: that is Command.Wait's.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err != nil || info.Signo == 0 {
			break
		}
		ws, err := awaitStop(p.pid)
		p.onStop(ws, err)
		passed = true
	}
	return passed
}

func (p *process) onStop(ws unix.WaitStatus, err error) {
	switch {
	case err != nil || !ws.Stopped(): // it has ended
		p.traced = false
	case ws.StopSignal() == unix.SIGTRAP:
		p.giveRandom()
		p.traced = false
		_ = unix.PtraceDetach(p.pid)
	default: // a signal
		_ = unix.PtraceCont(p.pid, int(ws.StopSignal()))
	}
}

// untrace is for a process that has not executed what it was to.
func (p *process) untrace() {
	if !p.traced {
		return
	}
	p.traced = false
	if unix.PtraceInterrupt(p.pid) != nil {
		return
	}
	for {
		ws, err := awaitStop(p.pid)
		switch {
		case err != nil || !ws.Stopped(): // it has ended
			return
		case ws>>16 != 0: // an event: the interruption
			_ = unix.PtraceDetach(p.pid)
			return
		default: // a signal that came first
			_ = unix.PtraceCont(p.pid, int(ws.StopSignal()))
		}
	}
}

func awaitStop(pid int) (ws unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(pid, &ws, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return ws, err
		}
	}
}

// giveRandom writes the bytes of a process that stands at its first instruction.
func (p *process) giveRandom() {
	const atRandom = 25
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", p.pid))
	if err != nil {
		return
	}
	e := binary.NativeEndian
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if e.Uint64(auxv) != atRandom {
			continue
		}
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.pid), os.O_WRONLY, 0)
		if err != nil {
			return
		}
		b := e.AppendUint64(e.AppendUint64(nil, p.seed()), ^p.seed())
		_, _ = f.WriteAt(b, int64(e.Uint64(auxv[8:])))
		_ = f.Close()
	}
}
