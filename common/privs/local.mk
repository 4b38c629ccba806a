# common/privs
