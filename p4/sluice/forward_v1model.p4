// Where a packet goes, for programs that run alone: included in an ingress control
// that has hdr and sm. A destination address without an entry goes to the port's
// pair (0 and 1, 2 and 3, ...), so that a switch of two ports needs none. Nothing of
// the packet changes, the hop limit neither: this is a bridge.

    action to_port(bit<9> port) {
        sm.egress_spec = port;
    }

    action to_pair() {
        sm.egress_spec = sm.ingress_port ^ 1;
    }

    action to_group(bit<16> group) {
        sm.mcast_grp = group;
    }

    action discard() {
        mark_to_drop(sm);
    }

    table forward {
        key = { hdr.mac.dst : exact; }
        actions = { to_port; to_pair; to_group; discard; }
        default_action = to_pair();
        size = 4096;
    }
