"""Group → verdict, pure: render, request, reply, dialogue. Nothing here waits, prints or knows a judge."""
