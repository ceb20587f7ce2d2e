package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// deviceInfo is a device's row of sluice devices.
type deviceInfo struct {
	Name string `json:"name"`
	// Error says why it can't be opened; the rest is empty then.
	Error           string  `json:"error,omitempty"`
	NodeGUID        string  `json:"node_guid,omitempty"`
	FirmwareVersion string  `json:"fw_ver,omitempty"`
	VendorID        uint32  `json:"vendor_id"`
	VendorPartID    uint32  `json:"vendor_part_id"`
	MaxQP           int     `json:"max_qp"`
	MaxQPWR         int     `json:"max_qp_wr"`
	MaxSGE          int     `json:"max_sge"`
	MaxCQ           int     `json:"max_cq"`
	MaxCQE          int     `json:"max_cqe"`
	MaxMR           int     `json:"max_mr"`
	MaxMRBytes      uint64  `json:"max_mr_size_bytes"`
	MaxPD           int     `json:"max_pd"`
	MaxSRQ          int     `json:"max_srq"`
	MaxSRQWR        int     `json:"max_srq_wr"`
	MaxQPRdAtom     int     `json:"max_qp_rd_atom"`
	MaxQPInitRdAtom int     `json:"max_qp_init_rd_atom"`
	MaxInlineBytes  int     `json:"max_inline_data_bytes"`
	Atomics         bool    `json:"atomics"`
	CoreClockHz     float64 `json:"hca_core_clock_hz"`
	ClockBits       int     `json:"clock_bits"`
	// Abilities that only some devices have, among the ones that package verbs names.
	Abilities []string   `json:"abilities"`
	Ports     []portInfo `json:"ports"`
}

type portInfo struct {
	Port      int      `json:"port"`
	State     string   `json:"state"`
	MaxMTU    int      `json:"max_mtu"`
	ActiveMTU int      `json:"active_mtu"`
	RateGbps  float64  `json:"rate_gbps"`
	Link      string   `json:"link_layer"`
	Netdev    string   `json:"netdev,omitempty"`
	GIDs      []string `json:"gids"` // by index, "" for GIDs that can't be used
}

func newDevices() *cobra.Command {
	var name string
	var verbose, asJSON bool
	cmd := &cobra.Command{
		Use:     "devices",
		Short:   "List RDMA devices and what they can do",
		Long:    "List the devices that can be opened, as ibv_devinfo does; with -v, all they say of themselves.",
		Example: "  sluice devices\n  sluice devices -d sim:lab/h0 -v",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			names, err := []string{name}, error(nil)
			if name == "" {
				names, err = verbs.Devices()
			}
			infos := []*deviceInfo{} // not null in JSON
			for _, n := range names {
				info, failed := describe(n)
				if failed != nil && name != "" {
					return usageError{failed}
				}
				infos = append(infos, info)
			}
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return errors.Join(err, e.Encode(infos))
			}
			return errors.Join(err, writeDevices(c.OutOrStdout(), infos, verbose))
		},
	}
	cmd.Flags().StringVarP(&name, "ib-dev", "d", "", "show one `DEVICE`")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show all attributes")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// describe opens a device and asks it. The info is there also if that fails.
func describe(name string) (*deviceInfo, error) {
	info := &deviceInfo{Name: name, Abilities: []string{}, Ports: []portInfo{}}
	dev, err := verbs.Open(name)
	if err != nil {
		info.Error = err.Error()
		return info, err
	}
	info.Name = dev.Name()
	a := dev.Attr()
	info.NodeGUID = fmt.Sprintf("%04x:%04x:%04x:%04x", a.NodeGUID>>48, a.NodeGUID>>32&0xffff, a.NodeGUID>>16&0xffff, a.NodeGUID&0xffff)
	info.FirmwareVersion, info.VendorID, info.VendorPartID = a.FirmwareVersion, a.VendorID, a.VendorPartID
	info.MaxQP, info.MaxQPWR, info.MaxSGE, info.MaxCQ, info.MaxCQE = a.MaxQP, a.MaxQPWR, a.MaxSGE, a.MaxCQ, a.MaxCQE
	info.MaxMR, info.MaxMRBytes, info.MaxPD, info.MaxSRQ, info.MaxSRQWR = a.MaxMR, a.MaxMRSize, a.MaxPD, a.MaxSRQ, a.MaxSRQWR
	info.MaxQPRdAtom, info.MaxQPInitRdAtom, info.MaxInlineBytes, info.Atomics = a.MaxQPRdAtom, a.MaxQPInitRdAtom, a.MaxInlineData, a.Atomics
	info.CoreClockHz, info.ClockBits = a.CoreClockHz, a.ClockBits
	for _, ability := range []struct {
		name string
		has  bool
	}{
		{"clock that can be read", readable(dev)},
		{"simulated time", is[verbs.Runner](dev)},
	} {
		if ability.has {
			info.Abilities = append(info.Abilities, ability.name)
		}
	}
	for num := 1; num <= a.PhysPorts; num++ {
		p, err := dev.Port(num)
		if err != nil {
			info.Error = err.Error()
			break
		}
		port := portInfo{
			Port: num, State: portStates[p.State], MaxMTU: int(p.MaxMTU), ActiveMTU: int(p.ActiveMTU),
			RateGbps: float64(p.LinkRate) / 1e9, Link: p.LinkName, Netdev: p.Netdev, GIDs: []string{},
		}
		for i := range p.GIDs {
			if gid, err := dev.GID(num, i); err == nil {
				port.GIDs = append(append(port.GIDs, make([]string, i-len(port.GIDs))...), gid.String())
			}
		}
		info.Ports = append(info.Ports, port)
	}
	return info, dev.Close()
}

// readable reports whether a device's clock can be read.
func readable(dev verbs.Device) bool {
	r, ok := dev.(verbs.ClockReader)
	if !ok {
		return false
	}
	_, err := r.ReadClock()
	return err == nil
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

var portStates = map[verbs.PortState]string{
	verbs.PortDown: "PORT_DOWN", verbs.PortInit: "PORT_INIT", verbs.PortArmed: "PORT_ARMED", verbs.PortActive: "PORT_ACTIVE",
}

func writeDevices(w io.Writer, infos []*deviceInfo, verbose bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, d := range infos {
		if i > 0 {
			fmt.Fprintln(t)
		}
		fmt.Fprintf(t, "device: %s\n", d.Name)
		line := func(key string, value any) { fmt.Fprintf(t, "    %s:\t%v\n", key, value) }
		if d.Error != "" {
			line("error", d.Error)
			continue
		}
		line("fw_ver", d.FirmwareVersion)
		line("node_guid", d.NodeGUID)
		if verbose {
			line("vendor_id", fmt.Sprintf("%#06x", d.VendorID))
			line("vendor_part_id", d.VendorPartID)
			line("max_qp", d.MaxQP)
			line("max_qp_wr", d.MaxQPWR)
			line("max_sge", d.MaxSGE)
			line("max_cq", d.MaxCQ)
			line("max_cqe", d.MaxCQE)
			line("max_mr", d.MaxMR)
			line("max_mr_size", units.Bytes(min(d.MaxMRBytes, 1<<62)))
			line("max_pd", d.MaxPD)
			line("max_srq", d.MaxSRQ)
			line("max_srq_wr", d.MaxSRQWR)
			line("max_qp_rd_atom", d.MaxQPRdAtom)
			line("max_qp_init_rd_atom", d.MaxQPInitRdAtom)
			line("max_inline_data", d.MaxInlineBytes)
			line("atomics", d.Atomics)
			if d.CoreClockHz > 0 {
				line("hca_core_clock", fmt.Sprintf("%.0f kHz, %d bits", d.CoreClockHz/1000, d.ClockBits))
			} else {
				line("hca_core_clock", "none: completions have no timestamps")
			}
			line("abilities", strings.Join(d.Abilities, ", "))
		}
		line("phys_port_cnt", len(d.Ports))
		for _, p := range d.Ports {
			fmt.Fprintf(t, "        port: %d\n", p.Port)
			line := func(key string, value any) { fmt.Fprintf(t, "            %s:\t%v\n", key, value) }
			line("state", p.State)
			line("max_mtu", p.MaxMTU)
			line("active_mtu", p.ActiveMTU)
			line("rate", units.Rate(p.RateGbps*1e9))
			line("link_layer", p.Link)
			if p.Netdev != "" {
				line("netdev", p.Netdev)
			}
			for i, gid := range p.GIDs {
				if gid == "" {
					continue
				}
				line(fmt.Sprintf("GID[%d]", i), gid)
			}
		}
	}
	return t.Flush()
}
