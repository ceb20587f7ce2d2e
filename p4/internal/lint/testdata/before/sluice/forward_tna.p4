// Where a packet goes, as forward_v1model.p4 has it: included in an ingress control
// that has hdr, ig_intr_md, ig_prsr_md, ig_dprsr_md and ig_tm_md. What the parser could
// not read to its end is counted and dropped.

    Counter<bit<32>, PortId_t>(512, CounterType_t.PACKETS) malformed;

    action to_port(PortId_t port) {
        ig_tm_md.ucast_egress_port = port;
    }

    action to_pair() {
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port ^ 1;
    }

    action to_group(bit<16> group) {
        ig_tm_md.mcast_grp_a = group;
    }

    action discard() {
        ig_dprsr_md.drop_ctl = 1;
    }

    table forward {
        key = { hdr.mac.dst : exact; }
        actions = { to_port; to_pair; to_group; discard; }
        default_action = to_pair();
        size = 4096;
    }
