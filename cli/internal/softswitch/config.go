package softswitch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/cli/internal/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/units"
)

// Port is an interface of the switch and what bounds its egress.
type Port struct {
	Interface string
	// Rate is that of its link, in bits of frames, from the destination address to
	// the end without the check sequence; 0 for no bound but the interface's.
	Rate units.Rate
	// Buffer and Packets bound its queue: what does not fit is dropped.
	Buffer  units.Bytes
	Packets int
	// ECN is the queue's length from which on ECN-capable packets that come to it
	// are marked; 0 for never.
	ECN units.Bytes
}

// ParsePort reads INTERFACE[:KEY=VALUE,...] with the keys rate, buffer, packets
// and ecn: "veth1:rate=200Mbps,buffer=1MB". Without them the rate has no bound, and
// the buffer is 1 MiB, at most 16384 packets.
func ParsePort(text string) (Port, error) {
	name, rest, more := strings.Cut(text, ":")
	p := Port{Interface: name, Buffer: plane.DefaultBuffer, Packets: plane.DefaultPackets}
	bad := func(format string, args ...any) (Port, error) {
		return p, fmt.Errorf("port %q: %w", text, fmt.Errorf(format, args...))
	}
	if name == "" {
		return bad("no interface: write veth0 or veth0:rate=200Mbps,buffer=1MB")
	}
	if !more {
		return p, nil
	}
	for field := range strings.SplitSeq(rest, ",") {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return bad("%q: write KEY=VALUE, such as rate=200Mbps", field)
		}
		var err error
		switch key {
		case "rate":
			if err = p.Rate.UnmarshalText([]byte(value)); err == nil && p.Rate <= 0 {
				err = fmt.Errorf("rate=%s: it must be positive; leave it out for no bound", value)
			}
		case "buffer":
			err = p.Buffer.UnmarshalText([]byte(value))
		case "packets":
			if p.Packets, err = strconv.Atoi(value); err != nil {
				err = fmt.Errorf("packets=%s: give a number", value)
			}
		case "ecn":
			err = p.ECN.UnmarshalText([]byte(value))
		default:
			err = fmt.Errorf("there is no %s: take rate, buffer, packets or ecn", key)
		}
		if err != nil {
			return bad("%w", err)
		}
	}
	c := p.egress()
	if err := c.Validate(); err != nil {
		return bad("%w", err)
	}
	return p, nil
}

func (p *Port) egress() plane.PortConfig {
	return plane.PortConfig{Rate: p.Rate, Buffer: p.Buffer, Packets: p.Packets, ECN: p.ECN}
}

// Config configures a Switch.
type Config struct {
	// Ports are numbered from 0 in this order, which is how a program knows them.
	Ports []Port
	// Pipeline is the P4 program with its tables' entries; nil for a learning
	// bridge. It belongs to the switch until Run returns.
	Pipeline *p4.Pipeline
}
