//go:build !linux

package softroce

import "github.com/sluice-rdma/sluice/verbs"

func (d *device) openWire() (wire, error) {
	return nil, verbs.Errorf("open", d.name, verbs.ErrNotSupported, "sockets that send what RoCEv2 needs are known on Linux only")
}

func linkState(string) (verbs.PortState, int64) { return verbs.PortActive, defaultRate }
