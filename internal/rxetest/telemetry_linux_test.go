package rxetest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/sluice-rdma/sluice/bench/replay"
	"github.com/sluice-rdma/sluice/internal/rxeguest"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// buildWiretagTests builds the tests of verbs/wiretag into a folder that guests get as
// their /job.
func buildWiretagTests(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(dir, "wiretagtest"), "github.com/sluice-rdma/sluice/verbs/wiretag")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
}

// What the switch between host and guest writes into tags, in Poseidon's units of
// 256 ns: on the way to the host, and on the way to the guest.
const (
	toHost  = 400
	toGuest = 30
)

// writeTags makes a switch of the tap device between host and guest: programs at both
// its ends write values into the tags of frames that have one. They are not Sluice's:
// what reads the values at both ends is under test.
func writeTags(t *testing.T, h *rxeguest.Host, device string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("eBPF programs that write tags on the tap device need root")
	}
	// A frame's EtherType is at offset 12, and the tag's value at 14; its top bit is
	// that of a reflection.
	const etherType = int32(telemetry.EtherTypeValue>>8 | telemetry.EtherTypeValue&0xff<<8) // as loaded here
	arriving, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 16),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
		asm.JNE.Imm(asm.R5, etherType, "pass"),
		asm.LoadMem(asm.R5, asm.R2, 14, asm.Byte),
		asm.JGT.Imm(asm.R5, 0x7f, "pass"),
		asm.StoreImm(asm.R2, 14, toHost>>8, asm.Byte),
		asm.StoreImm(asm.R2, 15, toHost&0xff, asm.Byte),
		asm.Mov.Imm(asm.R0, 2).WithSymbol("pass"), // XDP_PASS
		asm.Return(),
	}})
	check(t, err)
	t.Cleanup(func() { _ = arriving.Close() })
	leaving, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R2, 12),
		asm.Mov.Reg(asm.R3, asm.R10),
		asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, 4),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R5, asm.R10, -8, asm.Half),
		asm.JNE.Imm(asm.R5, etherType, "pass"),
		asm.LoadMem(asm.R5, asm.R10, -6, asm.Byte),
		asm.JGT.Imm(asm.R5, 0x7f, "pass"),
		asm.StoreImm(asm.R10, -6, toGuest>>8, asm.Byte),
		asm.StoreImm(asm.R10, -5, toGuest&0xff, asm.Byte),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, 12),
		asm.Mov.Reg(asm.R3, asm.R10),
		asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, 4),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"), // TCX_NEXT
		asm.Return(),
	}})
	check(t, err)
	t.Cleanup(func() { _ = leaving.Close() })

	// Attach where the device is.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	check(t, err)
	there, err := netns.GetFromPath(h.Proc() + "/ns/net")
	check(t, err)
	check(t, netns.Set(there))
	defer func() {
		check(t, netns.Set(here))
		_, _ = here.Close(), there.Close()
	}()
	tap, err := netlink.LinkByName(device)
	check(t, err)
	out, err := link.AttachTCX(link.TCXOptions{Interface: tap.Attrs().Index, Program: leaving, Attach: ebpf.AttachTCXEgress})
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("writing tags on the tap device needs TCX: %v", err)
	}
	check(t, err)
	t.Cleanup(func() { _ = out.Close() })
	// Generic: before packet sockets see a frame.
	in, err := link.AttachXDP(link.XDPOptions{Interface: tap.Attrs().Index, Program: arriving, Flags: link.XDPGenericMode})
	check(t, err)
	t.Cleanup(func() { _ = in.Close() })
}

// hostTelemetry runs verbs/wiretag in the guest: its program in the guest's kernel, and
// the kernel's soft-RoCE with tags that a switch writes into, against Sluice's own
// RoCEv2, which reads them itself.
func hostTelemetry(t *testing.T, m *meeting, dir string) {
	buildWiretagTests(t, dir)
	t.Run("the program in the guest's kernel", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*pairTime)
		defer cancel()
		r, err := m.at.Run(ctx, "/job/wiretagtest", "-test.v", "-test.run", "^Test(Tags|Odd|ReadResponses)", "-rapid.checks", "20")
		t.Log(r.Output)
		check(t, err)
	})
	t.Run("tags", func(t *testing.T) {
		writeTags(t, m.h, "tap0")
		for _, p := range taggedPairs(t, dir) {
			t.Run(p.name, func(t *testing.T) { m.runTagged(t, p) })
		}
	})
}

// A taggedPair is a pair one of whose ends records what its engine was told.
type taggedPair struct {
	pair
	record       string
	hop, reverse int  // of the records
	falls        bool // the rate, for the hop is beyond Poseidon's target
}

// taggedPairs are the pairs for a tap device with a switch by writeTags. The folder dir
// is the guest's /job.
func taggedPairs(t *testing.T, dir string) []taggedPair {
	const (
		host  = "sluice perf "
		guest = "/job/sluice perf "
		soft  = " -d PACKET&telemetry=poseidon "
		ibv   = " -d ibv:rxe0?telemetry=poseidon -x GID4 "
		flags = patient + " -s 4096 -n 40 "
		row   = " 4096 +40 "
	)
	onHost := filepath.Join(t.TempDir(), "rec")
	return []taggedPair{
		// Tagged frames reach the kernel's soft-RoCE without their tags, and its
		// acknowledgements bring back what they said.
		{pair{"write_bw, soft to ibv", guest + "write_bw" + ibv + flags, host + "write_bw --cc poseidon --record " + onHost + soft + flags + "GUEST4", row, true, 0},
			onHost, toGuest, toHost, false},
		// The kernel's soft-RoCE is steered by what the tags of its packets brought.
		{pair{"write_bw, ibv to soft", host + "write_bw" + soft + flags, guest + "write_bw --cc poseidon --record /job/rec" + ibv + flags + "HOST4", row, true, 0},
			filepath.Join(dir, "rec"), toHost, toGuest, true},
		// Of a READ, the packets with the data come this way. Sluice's own RoCEv2
		// returns nothing with them.
		{pair{"read_bw, ibv to soft", host + "read_bw" + soft + flags, guest + "read_bw --cc poseidon --record /job/rec" + ibv + flags + "HOST4", row, true, 0},
			filepath.Join(dir, "rec"), toGuest, 0, false},
	}
}

func (m *meeting) runTagged(t *testing.T, p taggedPair) {
	m.run(t, p.pair)
	tagsRecorded(t, p.record, p.hop, p.reverse, p.falls)
}

// tagsRecorded reads what an engine was told, and expects the delays of what the
// switch wrote.
func tagsRecorded(t *testing.T, name string, hop, reverse int, falls bool) {
	t.Helper()
	f, err := os.Open(name)
	check(t, err)
	defer func() { _ = f.Close() }()
	d, err := replay.NewReader(f)
	check(t, err)
	var r replay.Record
	var rates []units.Rate
	told := 0
	for {
		err := d.Next(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		rates = append(rates, r.Control.Rate)
		if !r.Ack.HasMaxDelay {
			continue
		}
		told++
		if r.Ack.MaxHopDelay != units.Time(hop)*telemetry.ValueUnit || r.Ack.ReverseMaxHopDelay != units.Time(reverse)*telemetry.ValueUnit {
			t.Fatalf("%v and %v back, want %v and %v", r.Ack.MaxHopDelay, r.Ack.ReverseMaxHopDelay, units.Time(hop)*telemetry.ValueUnit, units.Time(reverse)*telemetry.ValueUnit)
		}
	}
	if told == 0 || told < len(rates)*9/10 {
		t.Fatalf("of %d completions %d have telemetry", len(rates), told)
	}
	line := units.Rate(d.Streams()[0].Line)
	t.Logf("%d of %d completions have telemetry; the rate went from %v to %v on a line of %v", told, len(rates), rates[0], rates[len(rates)-1], line)
	if falls && rates[len(rates)-1] > line/10 {
		t.Errorf("the rate is %v with every delay beyond the target", rates[len(rates)-1])
	}
}
