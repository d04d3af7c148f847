"""The calls of the MQI, as steps on the manager."""
