package p4_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
)

var update = flag.Bool("update", false, "write the .stf files of the programs")

// The .stf files are for BMv2 as well as for this package's interpreter. There the
// queues are short but not empty, so what the switch itself measures is a wildcard,
// and values that have to be exact are the largest that there are. Roles of ports, in
// pairs: 2 and 4 put telemetry on, 3 and 5 take it off.

// stfFile is a file in the making.
type stfFile struct {
	strings.Builder
	tna bool
}

func (s *stfFile) line(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

func (s *stfFile) comment(text string) { s.line("\n# %s", text) }

// send sends a frame into a port.
func (s *stfFile) send(port int, frame []byte) {
	s.line("packet %d %s", port, hex.EncodeToString(frame))
}

// expect expects a frame; nibbles are those, counted from the first of the frame, that
// may be anything.
func (s *stfFile) expect(port int, frame []byte, nibbles ...int) {
	h := []byte(hex.EncodeToString(frame))
	for _, n := range nibbles {
		h[n] = '*'
	}
	s.line("expect %d %s$", port, h)
}

// pass sends a frame that the pair of its port has to send unchanged.
func (s *stfFile) pass(port int, frame []byte) {
	s.send(port, frame)
	s.expect(port^1, frame)
}

// cut sends a frame that ends within its headers: BMv2 forwards it, Tofino drops it.
func (s *stfFile) cut(port int, frame []byte) {
	s.send(port, frame)
	if !s.tna {
		s.expect(port^1, frame)
	}
}

// bothIPs calls f for an IPv4 frame and an IPv6 frame with a VLAN tag.
func bothIPs(f func(frameFields)) {
	f(frameFields{})
	f(frameFields{v6: true, vlan: true})
}

// others are packets that no program may touch, of no RoCEv2 or not recognised as such.
func (s *stfFile) others(port int) {
	s.comment("No RoCEv2: ARP, another UDP port, IPv4 options, a fragment, an IPv6 extension header, two VLAN tags.")
	arp := append(slices.Clone(frameFields{}.build()[:12]), 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1)
	s.pass(port, append(arp, make([]byte, 40)...))
	udp := frameFields{}.build()
	udp[udpOffset(udp)+3]++
	s.pass(port, udp)
	options := frameFields{}.build()
	ip := ipOffset(options)
	options = slices.Insert(options, ip+roce.IPv4Bytes, 1, 1, 1, 1)
	options[ip] = 0x46
	options[ip+3] += 4
	roce.IPv4(options[ip:]).SetChecksum()
	s.pass(port, options)
	fragment := frameFields{}.build()
	fragment[ip+6] = 0x20
	roce.IPv4(fragment[ip:]).SetChecksum()
	s.pass(port, fragment)
	extension := frameFields{v6: true}.build()
	extension[ipOffset(extension)+6] = 60
	s.pass(port, extension)
	s.pass(port, slices.Insert(frameFields{vlan: true}.build(), 12, 0x81, 0, 0, 9))
}

// cuts are frames that end within IP, UDP, BTH.
func (s *stfFile) cuts(port int, frame []byte) {
	udp := udpOffset(frame)
	for _, end := range []int{ipOffset(frame) + 10, udp + 4, udp + roce.UDPBytes + 5} {
		s.cut(port, frame[:end])
	}
}

// forwarding is the same for all programs.
func (s *stfFile) forwarding() {
	s.comment("Where packets go: by the destination address, to a group but not back, or to the port's pair.")
	s.line("add forward hdr.mac.dst:0x020000000003 to_port(port:7)")
	s.line("add forward hdr.mac.dst:0x020000000004 discard()")
	frame := frameFields{dst: 3}.build()
	s.send(0, frame)
	s.expect(7, frame)
	s.send(0, frameFields{dst: 4}.build())
	if s.tna {
		return
	}
	s.line("add forward hdr.mac.dst:0xffffffffffff to_group(group:1)")
	s.line("mc_mgrp_create 1")
	s.line("mc_node_create 0 0 1 7")
	s.line("mc_node_associate 1 0")
	broadcast := frameFields{}.build()
	for i := range 6 {
		broadcast[i] = 0xff
	}
	s.send(0, broadcast)
	s.expect(1, broadcast)
	s.expect(7, broadcast)
}

func run(i, n int) (at []int) {
	for k := range n {
		at = append(at, i+k)
	}
	return at
}

// tagFile is the tests of a program that writes tags of these forms. insert is the
// action that puts one on.
func tagFile(s *stfFile, forms map[telemetry.DelayForm]string) {
	first := true
	for _, form := range []telemetry.DelayForm{telemetry.Wide, telemetry.Compact, telemetry.Value} {
		insert, ok := forms[form]
		if !ok {
			continue
		}
		f := telemetry.DefaultDelayFormat(form)
		// The nibbles of a tag's value, from the tag's first.
		value := map[telemetry.DelayForm][]int{telemetry.Wide: run(9, 5), telemetry.Compact: run(5, 2), telemetry.Value: run(4, 4)}[form]
		// Ports: 2 to 3 and 4 to 5 for the first form, 8 to 9 and 10 to 11 for the second.
		in, through := 2, 4
		if !first {
			in, through = 8, 10
		}
		first = false
		longest := telemetry.DelayTag{Code: form.MaxCode(), Locator: 5}
		back := telemetry.DelayTag{Code: 3}
		s.comment(fmt.Sprintf("The %v tag. Its largest value stays, a smaller one may grow, a reflected one never does.", form))
		bothIPs(func(ff frameFields) {
			plain := ff.build()
			at := 24
			if ff.vlan {
				at += 8
			}
			nibbles := make([]int, len(value))
			for i, v := range value {
				nibbles[i] = at + v
			}
			if form == telemetry.Compact {
				nibbles = append(nibbles, at+7) // the locator goes with the value
			}
			s.pass(0, plain)
			s.pass(0, f.Append(nil, plain, longest, nil))
			s.pass(0, f.Append(nil, plain, longest, &back))
			small := f.Append(nil, plain, telemetry.DelayTag{}, &back)
			s.send(0, small)
			s.expect(1, small, nibbles...)
			only := f.Append(nil, plain, telemetry.DelayTag{}, &back)
			only = slices.Delete(only, at/2, at/2+form.Bytes())
			s.pass(0, only)
		})
		if form != telemetry.Value {
			s.comment("A tag of another signal stays, and so does one of a trimmed packet.")
			b := f.Append(nil, frameFields{}.build(), telemetry.DelayTag{Code: 1}, nil)
			if form == telemetry.Wide {
				b[16] = b[16]&0xf | telemetry.SignalQueueDepth<<4
			} else {
				b[14] = b[14]&0x1f | telemetry.SignalQueueDepth<<5
			}
			s.pass(0, b)
			s.pass(0, f.Append(nil, frameFields{}.build(), telemetry.DelayTag{Code: 1, Frozen: true}, nil))
		}
		s.comment(fmt.Sprintf("Port %d leads to a sender without tags, port %d to a plain NIC: what %d puts on, %d takes off again.", in, in^1, in, in^1))
		s.line("add ingress_role ingress_port:%d %s()", in, insert)
		s.line("add ingress_role ingress_port:%d %s()", through, insert)
		s.line("add egress_role egress_port:%d strip()", in^1)
		bothIPs(func(ff frameFields) {
			plain := ff.build()
			s.pass(in, plain)
			s.send(in, f.Append(nil, plain, longest, &back))
			s.expect(in^1, plain)
			probe := ff
			probe.probe = true
			s.pass(in, f.Append(nil, probe.build(), longest, &back))
		})
		s.comment(fmt.Sprintf("Port %d puts a tag on RoCEv2 that has none, and %d leaves it.", through, through^1))
		bothIPs(func(ff frameFields) {
			plain := ff.build()
			tagged := f.Append(nil, plain, telemetry.DelayTag{}, nil)
			at := 24
			if ff.vlan {
				at += 8
			}
			nibbles := make([]int, len(value))
			for i, v := range value {
				nibbles[i] = at + v
			}
			s.send(through, plain)
			s.expect(through^1, tagged, nibbles...)
			s.pass(through, f.Append(nil, plain, longest, nil))
			// Only a reflected tag: a forward one goes before it.
			both := f.Append(nil, plain, telemetry.DelayTag{}, &back)
			s.send(through, slices.Delete(slices.Clone(both), at/2, at/2+form.Bytes()))
			s.expect(through^1, both, nibbles...)
		})
		s.others(through)
		s.comment("Cut short: nothing is put on or taken off.")
		bothIPs(func(ff frameFields) {
			s.cuts(through, ff.build())
			s.cuts(in, f.Append(nil, ff.build(), telemetry.DelayTag{Code: 1}, nil))
		})
	}
	s.forwarding()
}

func intFile(s *stfFile) {
	hop := func(i int) telemetry.HopRecord { return telemetry.HopRecord{Low: uint64(i) * 0x1111111111111111} }
	most := mostHops(bmv2)
	if s.tna {
		most = mostHops(tofino1)
	}
	records := func(n int) (h []telemetry.HopRecord) {
		for i := range n {
			h = append(h, hop(i+1))
		}
		return h
	}
	// The nibbles of the latest record, less its rate.
	latest := func(frame []byte) []int {
		return run(2*(udpOffset(frame)+roce.UDPBytes+telemetry.INT64.Bytes(0))+1, 15)
	}

	s.comment("Without a shim nothing happens, a reflected one stays, one of another INT as well.")
	s.line("add port_rate egress_port:1 set_rate(code:2)")
	bothIPs(func(ff frameFields) {
		s.pass(0, ff.build())
		s.pass(0, withINT(ff.build(), shim{reflected: true, hops: records(3)}))
	})
	other := withINT(frameFields{}.build(), shim{})
	other[udpOffset(other)+roce.UDPBytes] = 0x14
	s.pass(0, other)
	many := withINT(frameFields{}.build(), shim{})
	many[udpOffset(many)+roce.UDPBytes+1] = 18
	s.pass(0, many)
	wrong := withINT(frameFields{}.build(), shim{})
	wrong[ipOffset(wrong)+10]++
	s.comment("A wrong IPv4 checksum stays wrong.")
	s.pass(0, wrong)

	s.comment("A record is put before the others, port 1 has rate 2, and one too many is left out.")
	bothIPs(func(ff frameFields) {
		for _, n := range []int{0, 1, 4, most - 1} {
			ff.psn++
			in := withINT(ff.build(), shim{hops: records(n)})
			out := withINT(ff.build(), shim{hops: append(records(n), telemetry.HopRecord{Low: 2 << 60})})
			s.send(0, in)
			s.expect(1, out, latest(out)...)
		}
		s.send(0, withINT(ff.build(), shim{hops: records(most)}))
		s.expect(1, withINT(ff.build(), shim{hops: records(most), overflow: true}))
		s.pass(0, withINT(ff.build(), shim{hops: records(most), overflow: true}))
	})

	s.comment("Port 2 is a source, port 3 a sink: what 2 puts on, 3 takes off again, with any number of records, probes aside.")
	s.line("add ingress_role ingress_port:2 source()")
	s.line("add ingress_role ingress_port:4 source()")
	s.line("add egress_role egress_port:3 sink()")
	bothIPs(func(ff frameFields) {
		s.pass(2, ff.build())
		for _, h := range []shim{{}, {hops: records(3)}, {hops: records(most), overflow: true}, {hops: records(2), reflected: true}} {
			ff.psn++
			s.send(2, withINT(ff.build(), h))
			s.expect(3, ff.build())
		}
		ff.udpSum = true
		s.send(2, ff.build())
		s.expect(3, noChecksum(ff.build()))
		ff.probe = true
		s.send(2, withINT(ff.build(), shim{hops: records(1)}))
		out := withINT(ff.build(), shim{hops: append(records(1), telemetry.HopRecord{Low: 15 << 60})})
		s.expect(3, out, latest(out)...)
	})
	if most < telemetry.MaxHops {
		s.comment("More records than the chip's parser reads, from switches of other chips: a packet of another INT, for a sink as well.")
		for n := most + 1; n <= telemetry.MaxHops; n++ {
			bothIPs(func(ff frameFields) { s.pass(2, withINT(ff.build(), shim{hops: records(n)})) })
		}
	}
	s.comment("Port 4 is a source, port 5 no sink.")
	bothIPs(func(ff frameFields) {
		for _, sum := range []bool{false, true} {
			ff.udpSum = sum
			s.send(4, ff.build())
			out := withINT(ff.build(), shim{hops: []telemetry.HopRecord{{Low: 15 << 60}}})
			s.expect(5, out, latest(out)...)
		}
	})
	s.others(4)
	s.comment("Cut short: nothing is put on or taken off.")
	bothIPs(func(ff frameFields) {
		s.cuts(4, ff.build())
		with := withINT(ff.build(), shim{hops: records(3)})
		s.cuts(2, with)
		payload := udpOffset(with) + roce.UDPBytes
		for _, end := range []int{payload + 2, payload + 4 + 12, payload + 4 + 24 + 3} {
			s.cut(2, with[:end])
		}
	})
	s.forwarding()
}

func einFile(s *stfFile) {
	s.comment("No queue grows above this threshold, so no bit is set, and one that is set stays.")
	if s.tna {
		s.line("setdefault ein_port set_port(high_water:1536, max_gap:1000000)")
	} else {
		s.line("setdefault ein_port set_port(threshold:0xffffffff, high_water:1536, max_gap:1000000)")
	}
	bothIPs(func(ff frameFields) {
		for range 3 {
			ff.psn++
			s.pass(0, ff.build())
		}
		for _, bits := range []byte{telemetry.EIN, telemetry.EINEcho, telemetry.EIN | telemetry.EINEcho} {
			b := ff.build()
			telemetry.SetEIN(b[udpOffset(b)+roce.UDPBytes:], bits)
			s.pass(0, b)
		}
	})
	s.others(0)
	s.comment("Cut short.")
	bothIPs(func(ff frameFields) { s.cuts(0, ff.build()) })
	s.forwarding()
}

// stfFiles are the programs with what makes their files.
var stfFiles = map[string]func(*stfFile){
	"poseidon_mpd": func(s *stfFile) { tagFile(s, map[telemetry.DelayForm]string{telemetry.Value: "insert"}) },
	"csig_mpd": func(s *stfFile) {
		tagFile(s, map[telemetry.DelayForm]string{telemetry.Wide: "insert_wide", telemetry.Compact: "insert_compact"})
	},
	"int": intFile,
	"ein": einFile,
}

// To write the files anew: go test ./p4 -run TestSTFFiles -update.
func TestSTFFilesAreCurrent(t *testing.T) {
	for name, write := range stfFiles {
		for _, tna := range []bool{false, true} {
			s := &stfFile{tna: tna}
			file := name + ".stf"
			if tna {
				file = name + "_tna.stf"
			}
			s.line("# Tests of %s, written by stffiles_test.go.", strings.TrimSuffix(file, ".stf")+".p4")
			write(s)
			if *update {
				if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			have, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(have) != s.String() {
				t.Errorf("%s is not what stffiles_test.go writes: go test ./p4 -run TestSTFFiles -update", file)
			}
		}
	}
}
