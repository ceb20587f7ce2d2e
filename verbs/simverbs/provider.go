package simverbs

import (
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func init() { verbs.Register("sim", &provider{labs: map[string]*lab{}}) }

// provider opens devices of named networks, which last as long as the process.
type provider struct {
	mu   sync.Mutex
	labs map[string]*lab
}

// lab is a star network, made by the first device that is opened on it.
type lab struct {
	options    string
	congestion CongestionFor
	world      *World
}

// labOptions are the settings in the query of a device's name.
type labOptions struct {
	Hosts    int            `yaml:"hosts" range:"[2,4096]" of:"hosts"`
	Rate     units.Rate     `yaml:"rate" range:"(0,)" eg:"25Gbps"`
	Delay    units.Time     `yaml:"delay" range:"[0s,1s]" eg:"1us"`
	NIC      string         `yaml:"nic"`
	Seed     uint64         `yaml:"seed"`
	Collects telemetry.Kind `yaml:"telemetry" one:"none max-delay per-hop"` // of the packets of all hosts
}

var ofOptions = field.Of[labOptions]("sim")

// Open implements verbs.Provider: [NETWORK/]HOST[?hosts=&rate=&delay=&nic=&seed=&telemetry=].
func (p *provider) Open(name string) (verbs.Device, error) {
	path, query, _ := strings.Cut(name, "?")
	network, host, ok := strings.Cut(path, "/")
	if !ok {
		network, host = "lab", path
	}
	object := "sim:" + name
	bad := func(cause error, format string, args ...any) (verbs.Device, error) {
		return nil, verbs.Errorf("open", object, cause, format, args...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.labs[network]
	if l == nil {
		o, err := parseOptions(query)
		if err != nil {
			return bad(verbs.ErrInvalid, "%v", err)
		}
		w, err := o.build(network)
		if err != nil {
			return bad(verbs.ErrInvalid, "%v", err)
		}
		l = &lab{options: query, congestion: o.congestion, world: w}
		p.labs[network] = l
	} else if query != "" && query != l.options {
		return bad(verbs.ErrInvalid, "the network %s exists already, made with the options %q: give the same, or none", network, l.options)
	}
	i, err := l.world.net.Topology().Host(host)
	if err != nil {
		return bad(verbs.ErrNoDevice, "%v", err)
	}
	if d := l.world.devices[i]; !d.closed {
		return d, nil
	}
	// Opened again after Close: the NIC is the same.
	d := l.world.AddDevice(l.world.devices[i].name, l.world.devices[i].nic, l.congestion)
	return d, nil
}

// Devices implements verbs.Provider: two hosts of the default network. Any
// network's hosts can be opened; naming one makes it.
func (p *provider) Devices() ([]string, error) {
	return []string{"sim:lab/h0", "sim:lab/h1"}, nil
}

func parseOptions(query string) (labOptions, error) {
	o := labOptions{Hosts: 8, Rate: 100 * units.Gbps, Delay: 500 * units.Nanosecond, NIC: "cx6dx", Seed: 1}
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, fmt.Errorf("the options %q can't be read: %w; write hosts=4&rate=25Gbps", query, err)
	}
	return o, ofOptions.Parse(&o, values)
}

// congestion returns each queue pair's congestion control; it is a CongestionFor.
func (o *labOptions) congestion(int) (nicmodel.Congestion, int, error) {
	return nicmodel.Congestion{Telemetry: o.Collects}, 0, nil
}

// build makes a lossless star of hosts h0, h1, ... around one switch.
func (o *labOptions) build(network string) (*World, error) {
	preset, err := nicmodel.Preset(o.NIC)
	if err != nil {
		return nil, err
	}
	cfg := fabric.Default()
	for i := range cfg.Switch.Classes {
		cfg.Switch.Classes[i].PFC.Lossless = true
	}
	e := des.New()
	net, err := fabric.New(e, fabric.Star(o.Hosts, fabric.Link{Rate: o.Rate, Delay: o.Delay}), cfg, o.Seed)
	if err != nil {
		return nil, err
	}
	w := NewWorld(e, net)
	w.ForApplications()
	frames := nicmodel.NewFrames(net)
	for host := range o.Hosts {
		nic, err := nicmodel.New(e, net, frames, host, o.Rate, preset)
		if err != nil {
			return nil, err
		}
		w.AddDevice(fmt.Sprintf("sim:%s/%s", network, net.Topology().HostName(host)), nic, o.congestion)
	}
	return w, nil
}
