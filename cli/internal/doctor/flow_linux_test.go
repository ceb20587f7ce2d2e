package doctor

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

func TestParsePFC(t *testing.T) {
	pfc := make([]byte, 8+128)
	pfc[0], pfc[1] = 8, 1<<3|1<<4
	binary.NativeEndian.PutUint64(pfc[8+8*3:], 17)
	binary.NativeEndian.PutUint64(pfc[8+64+8*4:], 5)
	answer := func(kind int, value []byte) []byte {
		inner := nl.NewRtAttr(kind, value)
		return nl.NewRtAttr(dcbAttrIEEE|syscall.NLA_F_NESTED, inner.Serialize()).Serialize()
	}
	var f flow
	if err := f.parsePFC(answer(dcbAttrIEEEPFC, pfc)); err != nil {
		t.Fatal(err)
	}
	if f.pfc != 1<<3|1<<4 || f.pauses[3] != 17 || f.paused[4] != 5 || bits(f.pfc) != "3 4" || pauseCounts(&f) != "17 pause frames sent, 5 received" {
		t.Errorf("%+v", f)
	}
	if err := f.parsePFC(answer(dcbAttrIEEEPFC, pfc[:100])); err == nil {
		t.Error("a short answer was taken")
	}
	if err := f.parsePFC(answer(7, pfc)); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("without PFC: %v", err)
	}
	if err := f.parsePFC([]byte{200, 0, 1, 0}); err == nil {
		t.Error("a broken answer was taken")
	}
}
