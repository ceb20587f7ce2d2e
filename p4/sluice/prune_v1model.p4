        // A multicast copy does not go back to where it came from. 5 is the instance
        // type of a copy.
        if (sm.instance_type == 5 && sm.egress_port == sm.ingress_port) {
            mark_to_drop(sm);
            exit;
        }
