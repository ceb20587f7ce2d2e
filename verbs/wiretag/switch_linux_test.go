package wiretag

import (
	"errors"

	"golang.org/x/sys/unix"
)

// forward is the switch from one port to the other: it raises the tag of each frame,
// as the test says, and passes it on. It ends when reading from the port fails.
func (w *world) forward(from, in, out int) {
	frame := make([]byte, 1<<16)
	for {
		n, err := unix.Read(in, frame)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			if w.stopped.Load() {
				return
			}
			continue
		}
		if err != nil {
			return
		}
		if _, roce := transportOf(w.format, frame[:n]); roce && !w.format.Raise(frame[:n], (*w.write.Load())(from, frame[:n]), 0) {
			w.untagged.Add(1)
		}
		_, _ = unix.Write(out, frame[:n]) // what finds no room is lost, as in any switch
	}
}
