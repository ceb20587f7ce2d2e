package icrc

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// Packets that the Linux soft-RoCE driver has sent (kernel 6.1), from their IPv4
// header on.
var rxe = map[string]string{
	"acknowledge":        "45000030b64d400040116fd10a4d00020a4d0003c12112b7001c00001100ffff00000011004b6ca51f000001a61f20aa",
	"read request":       "4500003c364f40004011efc30a4d00030a4d0002c14412b7002800000c00ffff00000012807d18d2000055d30afc6000000003930000200089dc5dde",
	"fetch and add":      "450000483b6940004011ea9d0a4d00030a4d0002c19012b7003400001400ffff000000148025e8500000564c37d4f000000005ec00000000000000010000000000000000c797af1e",
	"atomic acknowledge": "45000038c1354000401164e10a4d00020a4d0003c19012b7002400001200ffff000000140025e8501f000001269890abbe59fa3059b3469c",
	"compare and swap":   "450000483d8e40004011e8780a4d00030a4d0002c1b912b7003400001300ffff00000015803d8bba00005583e7c9d000000006590000000000000000000000000000000073344f13",
	"send":               "4500003c402440004011e5ee0a4d00030a4d0002c4d112b7002800000400ffff00000016801ebc1b0000557ec40535f000000a3a00000040c6b5c8c9",
}

var calc Calc

func parse(t *testing.T, s string) (src, dst netip.AddrPort, id uint16, packet []byte) {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	port := func(at int) uint16 { return binary.BigEndian.Uint16(b[at:]) }
	src = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), port(20))
	dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), port(22))
	return src, dst, port(4), b[28:]
}

func TestFramesOfTheKernel(t *testing.T) {
	for name, s := range rxe {
		src, dst, id, p := parse(t, s)
		n := len(p) - Bytes
		if got, want := calc.Sum(src, dst, id, p[:n]), binary.LittleEndian.Uint32(p[n:]); got != want {
			t.Errorf("%s: %#x, want %#x", name, got, want)
		}
		if !calc.Good(src, dst, p) {
			t.Errorf("%s: not good without its identification", name)
		}
		if got, ok := identification(calc.Sum(src, dst, 0, p[:n])^binary.LittleEndian.Uint32(p[n:]), n); !ok || got != id {
			t.Errorf("%s: found identification %#x, %v; it is %#x", name, got, ok, id)
		}
		for bit := range 8 * len(p) {
			p[bit/8] ^= 1 << (bit % 8)
			if calc.Good(src, dst, p) != (bit/8 == 4) { // the byte that routers may change
				t.Errorf("%s: bit %d flipped: good is %v", name, bit, bit/8 != 4)
			}
			p[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func random(r *rand.Rand, v6 bool) (src, dst netip.AddrPort, packet []byte) {
	addr := func() netip.AddrPort {
		var b [16]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if v6 {
			return netip.AddrPortFrom(netip.AddrFrom16(b), uint16(r.Uint32()))
		}
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), uint16(r.Uint32()))
	}
	packet = make([]byte, 16+r.IntN(4100))
	for i := range packet {
		packet[i] = byte(r.Uint32())
	}
	return addr(), addr(), packet
}

// Any identification is found, with or without "don't fragment"; of corrupt packets
// about 2^-15 pass.
func TestHiddenIdentification(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	passed := 0
	const trials = 100_000
	for i := range trials {
		src, dst, p := random(r, false)
		p = p[:min(len(p), 16+r.IntN(200))]
		id := uint16(r.Uint32())
		calc.Put(src, dst, id, p)
		if !calc.Good(src, dst, p) {
			t.Fatalf("trial %d: identification %#x of a packet of %d bytes not found", i, id, len(p))
		}
		p[6+r.IntN(len(p)-6)] ^= byte(1 + r.IntN(255))
		p[6+r.IntN(len(p)-6)] ^= byte(1 + r.IntN(255))
		p[6+r.IntN(len(p)-6)] ^= byte(1 + r.IntN(255))
		if calc.Good(src, dst, p) {
			passed++
		}
	}
	if want := trials / 32768.; float64(passed) > 5*want {
		t.Errorf("%d of %d corrupt packets passed, want about %.1f", passed, trials, want)
	}
}

// A sender may allow fragments: here the ICRC is taken by hand, over such a header.
func TestFragmentable(t *testing.T) {
	frame, err := hex.DecodeString(rxe["send"])
	if err != nil {
		t.Fatal(err)
	}
	src, dst, _, p := parse(t, rxe["send"])
	frame[6] = 0 // the flags
	for _, at := range []int{1, 8, 10, 11, 26, 27, 28 + 4} {
		frame[at] = 0xff
	}
	n := len(frame) - Bytes
	sum := crc32.ChecksumIEEE(append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, frame[:n]...))
	binary.LittleEndian.PutUint32(p[len(p)-Bytes:], sum)
	if !calc.Good(src, dst, p) {
		t.Error("a packet that may be fragmented is not good")
	}
	p[14] ^= 1
	if calc.Good(src, dst, p) {
		t.Error("a corrupt packet that may be fragmented is good")
	}
}

func TestIPv6(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		src, dst, p := random(r, true)
		calc.Put(src, dst, 0, p)
		if !calc.Good(src, dst, p) {
			t.Fatal("a good packet is not")
		}
		p[6+r.IntN(len(p)-6)] ^= byte(1 + r.IntN(255))
		if calc.Good(src, dst, p) {
			t.Fatal("a corrupt packet is good")
		}
	}
}

func TestTooShort(t *testing.T) {
	a := netip.MustParseAddrPort("10.0.0.1:4791")
	for n := range 16 {
		if calc.Good(a, a, make([]byte, n)) {
			t.Errorf("%d bytes are good", n)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	src, dst, _, p := parse(t, rxe["send"])
	if n := testing.AllocsPerRun(100, func() { calc.Good(src, dst, p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGood(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		n    int
		id   uint16
	}{{"ack", 20, 0}, {"4096", 4112, 0}, {"4096 with identification", 4112, 777}} {
		b.Run(c.name, func(b *testing.B) {
			src, dst, p := random(r, false)
			p = append(p, make([]byte, c.n)...)[:c.n]
			calc.Put(src, dst, c.id, p)
			b.ReportAllocs()
			b.SetBytes(int64(c.n))
			for b.Loop() {
				if !calc.Good(src, dst, p) {
					b.Fatal("not good")
				}
			}
		})
	}
}
