package softswitch

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever control messages come with a frame.
func FuzzControl(f *testing.F) {
	b := make([]byte, unix.CmsgSpace(20))
	binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(20)))
	binary.NativeEndian.PutUint32(b[8:], unix.SOL_PACKET)
	binary.NativeEndian.PutUint32(b[12:], unix.PACKET_AUXDATA)
	binary.NativeEndian.PutUint32(b[16:], 1<<4|1<<6)
	f.Add(b)
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		c := parseControl(b)
		if len(b) < unix.CmsgLen(0) && c != (control{}) {
			t.Errorf("%x says %+v", b, c)
		}
	})
}
